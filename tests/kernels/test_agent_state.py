"""What the agent sees of itself, by hand."""

import math

import pytest
import torch

from trainer.reference.agent_state import Episode, advance_episode, fresh_episode, observe
from trainer.reference.differential_sharpe import SharpeStep, variance_floor
from trainer.reference.ledger import Account

F64 = torch.float64
SIGMA = torch.tensor([[0.01]], dtype=F64)


def cell(value):
    return torch.tensor([[float(value)]], dtype=F64)


def columns(account, episode, length=100):
    return observe(account, episode, SIGMA, variance_floor(SIGMA), length, relative=True)[0, 0].tolist()


def test_every_column_holds_its_quantity():
    account = Account(cell(-0.5), cell(100 / 99 - 1), cell(1.02))  # short from 100, now 99
    episode = Episode(cell(0), cell(25), cell(10), cell(0.002), cell(4e-4))
    expected = [
        math.log(1.02) / (0.01 * 10),
        -0.5,
        -0.5 * (99 / 100 - 1) / 0.01,
        0.1,
        0.25,
        0.1,
        math.log(2),
    ]
    assert columns(account, episode) == pytest.approx(expected, abs=1e-12)


def test_goal_unrealised_return_and_time_in_position_are_clipped():
    ruined = Account(cell(1), cell(5.0), cell(0.0))
    low = columns(ruined, Episode(cell(0), cell(1), cell(500), cell(0), cell(0)))
    assert low[0] == -10
    assert low[2] == -10
    assert low[3] == 1
    rich = columns(Account(cell(1), cell(-0.9), cell(1e9)), fresh_episode(cell(1), SIGMA))
    assert rich[0] == 10
    assert rich[2] == 10


def test_a_fresh_episode_starts_with_no_mean_and_the_training_variance():
    state = columns(Account(cell(0), cell(0), cell(3)), fresh_episode(cell(3), SIGMA))
    assert state == pytest.approx([0, 0, 0, 0, 0, 0, 0], abs=1e-12)


def test_a_variance_below_the_floor_counts_as_the_floor():
    account = Account(cell(0), cell(0), cell(1))
    state = columns(account, Episode(cell(0), cell(0), cell(0), cell(0.001), cell(0)))
    assert state[5] == pytest.approx(1.0)
    assert state[6] == pytest.approx(math.log(0.1))


@pytest.mark.parametrize(
    ("old", "new", "held"), [(0, 0, 0), (0, 1, 1), (1, 0.5, 5), (0.5, 1, 5), (1, -1, 1), (-1, 0, 0)]
)
def test_time_in_position_counts_from_the_opening_and_restarts_on_a_flip(old, new, held):
    episode = Episode(cell(0.3), cell(7), cell(4 if old else 0), cell(0), cell(0))
    after = advance_episode(episode, cell(old), cell(new), SharpeStep(cell(0), cell(0.1), cell(0.2)))
    assert after.held.item() == held
    assert (after.log_start.item(), after.age.item()) == (0.3, 8)
    assert (after.first_moment.item(), after.variance.item()) == (0.1, 0.2)
