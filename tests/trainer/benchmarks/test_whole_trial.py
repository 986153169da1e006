"""The table of a whole trial: its parts add up, and the peer beside it learns."""

import json
import math

import pytest
import torch

from trainer.benchmarks import peers, whole_trial
from trainer.benchmarks.peer_torch_trial import PeerTrial, measure
from trainer.benchmarks.whole_trial import TrialTime, exclusive, table
from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.folds import Fold
from trainer.phases import clocked, phase

TIME = TrialTime(wall=5.0, collect=0.25, train=3.0, evaluate=1.25, setup=0.25, captures=0.125)
CPU = torch.device("cpu")


def test_the_host_has_what_the_three_phases_leave():
    assert TIME.host == 0.5
    assert TIME.host_share == 0.1


def test_a_capture_within_a_phase_is_not_the_phases():
    spans = [("capture", "learn", 0.5), ("learn", "", 2.0), ("learn", "", 1.0), ("capture", "", 4.0)]
    assert exclusive(spans) == {"collect": 0.0, "learn": 2.5, "walk": 0.0, "capture": 4.5}


def test_the_table_has_every_part_and_the_peer_below_on_demand():
    head, _, row = table({"bf16": TIME}).splitlines()[:3]
    assert row == "| bf16 | 5.00 | 0.25 | 3.00 | 1.25 | 0.50 | 0.38 | 10.0 % |"
    assert head.count("|") == row.count("|")
    beside = table({"bf16": TIME}, (10.0, 300.0, 690.0)).splitlines()
    assert (
        beside[3] == "| plain PyTorch | 1000 | 10 | 300 | 690 | in the parts | in the parts | in the parts |"
    )
    assert beside[-1].endswith(
        "scaled up linearly to all members and epochs. Plain PyTorch / the first row: 200."
    )


def test_a_peers_share_is_scaled_to_all_members_epochs_steps_and_bars(monkeypatch):
    share = {"collection": 0.5, "step": 1e-3, "bar": 1e-4}
    monkeypatch.setattr(whole_trial, "peer_rows", lambda name: [share] if name == "torch_trial" else [])
    collect, train, evaluate = whole_trial.peer_parts()
    assert collect == 5 * 3 * 20 * 0.5
    assert train == pytest.approx(5 * 3 * 20 * 512 * 1e-3)
    assert evaluate == pytest.approx(5 * 3 * 20 * 3998 * 1e-4)  # (40,000 - 20,000 - 2) // 5 rows


def test_a_peers_lines_of_json_are_its_rows(monkeypatch):
    class Told:
        returncode, stdout = 0, "a warning\n" + json.dumps({"step": 2.0}) + "\n"

    monkeypatch.setattr(peers.subprocess, "run", lambda *_, **__: Told)
    assert peers.peer_rows("any") == [{"step": 2.0}]


def test_a_clock_hears_of_nested_phases_and_of_nothing_afterwards():
    class Clock:
        heard: list[str] = []  # noqa: RUF012

        def begin(self, name):
            self.heard.append(f"+{name}")

        def end(self, name):
            self.heard.append(f"-{name}")

    with clocked(Clock()):
        with phase("learn"), phase("capture"):
            pass
        with pytest.raises(ZeroDivisionError), phase("walk"):
            _ = 1 / 0
    with phase("collect"):
        pass
    assert Clock.heard == ["+learn", "+capture", "-capture", "-learn", "+walk", "-walk"]


SMALL = {
    "data.path": "synthetic:known_answer:600:1",
    "trunk_widths": (16,),
    "head_width": 8,
    "num_atoms": 11,
    "batch_size": 32,
    "episodes": 4,
    "episode_length": 16,
    "capacity": 96,
    "her_ratio": 0.5,
}


def peer(**changes):
    torch.manual_seed(0)
    config = TrainerConfig().with_overrides({**SMALL, **changes})
    return PeerTrial(config, load_market(config), Fold(0, 400, 402, 500), CPU, compiled=False)


def test_the_peer_learns_for_two_epochs_and_its_ring_wraps_around():
    trial = peer()
    losses = []
    for _ in range(2):
        trial.collect()
        losses.append(float(trial.learn(60)))
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[1] < losses[0]
    assert trial.written == 128
    assert int((trial.priority > 0).sum()) == 96
    returns = trial.evaluate(97)
    assert returns.shape == (97,)
    assert bool(returns.isfinite().all())


def test_the_peer_relabels_with_goals_that_its_own_episode_reaches_later():
    trial = peer()
    trial.collect()
    index, (state, following, _, reward, weight) = trial._drawn()
    episode = index[:16] // 16 * 16
    for row, start in enumerate(episode.tolist()):
        later = trial.following[int(index[row]) : start + 16, 1]
        assert bool((later == state[row, 0]).any())
        assert state[row, 0] == following[row, 0]
    assert float(weight.max()) == 1.0
    assert torch.equal(state[16:], trial.state[index[16:]])
    assert torch.equal(reward[16:], trial.reward[index[16:]])


def test_the_peers_costs_and_returns_are_those_of_its_ledger():
    trial = peer(fee_bp=100.0, half_spread_bp=0.0)
    account = trial._opened(1)
    trial._traded(account, torch.tensor([[4, 0, 0]]), torch.tensor([410]))
    assert float(account.growth.expm1()) == pytest.approx(float(trial.moves[410]) - 0.01, abs=1e-6)
    trial._traded(account, torch.tensor([[4, 0, 0]]), torch.tensor([411]))
    expected = (1 + float(trial.moves[410]) - 0.01) * (1 + float(trial.moves[411])) - 1
    assert float(account.growth.expm1()) == pytest.approx(expected, abs=1e-6)


def test_the_peers_share_is_measured_for_every_part():
    share = measure(peer(), 1, 2, 3)
    assert min(share.collection, share.step, share.bar) > 0


@pytest.mark.gpu
def test_a_small_trial_is_split_into_parts_that_fill_its_wall_time(monkeypatch):
    monkeypatch.setattr(whole_trial, "BARS", 3000)
    monkeypatch.setattr(whole_trial, "EPOCHS", 2)
    market = whole_trial.hourly_market()
    assert market.features.shape == (3000, 48)
    config = whole_trial.configuration("bf16", epochs=2).with_overrides({"updates": 16, "seeds": 1})
    time = whole_trial.measure(config, market)
    parts = (time.collect, time.train, time.evaluate, time.setup, time.captures)
    assert all(0.0 < part < time.wall for part in parts)
    assert time.setup + time.captures < time.host
    assert time.collect + time.train + time.evaluate + time.host == pytest.approx(time.wall)
