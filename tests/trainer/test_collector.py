"""Collections: what is written for every transition, and where episodes begin and end in a lane."""

import pytest
import torch

from trainer.collector import collect
from trainer.environment import Environment, Observation, StepResult, step_counter
from trainer.folds import Fold
from trainer.layout import StateLayout
from trainer.transitions import Collection

CPU = torch.device("cpu")


class Scripted(Environment):
    """Terminates where it is told to; its prefix counts the steps of the lane."""

    def __init__(self, terminations):
        self.layout = StateLayout(1, 2, 0, 1, (4,))
        self.table = None
        self.script = torch.tensor(terminations, dtype=torch.bool)  # [M, E, L]
        self.members, self.lanes, self.lane_length = self.script.shape
        self.steps = step_counter(CPU)
        self.prefix = torch.zeros(self.members, self.lanes, 2)

    def begin_lanes(self):
        self.prefix.zero_()

    def observation(self):
        return Observation(self.prefix, torch.zeros(self.prefix.shape[:2], dtype=torch.int64))

    def step(self, action, position):
        self.prefix += 1
        return StepResult(self.prefix + 0.5, action[..., 0].float(), self.script[:, :, position])


def collected(environment, policy):
    collection = Collection.allocate(
        environment.members,
        environment.lanes,
        environment.lane_length,
        environment.layout,
        torch.float32,
        CPU,
    )
    collect(environment, policy, collection)
    return collection


def test_episodes_are_marked_by_their_start_and_exclusive_stop():
    lanes = [[0, 0, 0, 0, 0], [0, 1, 0, 0, 1], [1, 1, 0, 1, 0]]
    collection = collected(Scripted([lanes]), lambda state: torch.zeros(1, 3, 1, dtype=torch.int64))
    assert collection.episode_start[0].tolist() == [[0, 0, 0, 0, 0], [0, 0, 2, 2, 2], [0, 1, 2, 2, 4]]
    assert collection.episode_stop[0].tolist() == [[5, 5, 5, 5, 5], [2, 2, 5, 5, 5], [1, 2, 4, 4, 5]]
    assert collection.terminated[0].int().tolist() == lanes


def test_only_the_last_transition_of_a_lane_is_truncated():
    environment = Scripted([[[0, 1, 0, 0]]])
    collection = collected(environment, lambda state: torch.zeros(1, 1, 1, dtype=torch.int64))
    assert collection.truncated[0, 0].tolist() == [False, False, False, True]


def test_states_actions_and_rewards_stand_at_their_step_and_a_collection_is_overwritten():
    environment = Scripted([[[0, 0, 1]], [[0, 0, 0]]])
    collection = Collection.allocate(2, 1, 3, environment.layout, torch.float32, CPU)
    for offset in (1, 0):

        def policy(state, offset=offset):
            return state[..., :1].long() + offset

        collect(environment, policy, collection)
        for member in range(2):
            assert collection.prefix[member, 0, :, 0].tolist() == [0, 1, 2]
            assert collection.next_prefix[member, 0, :, 0].tolist() == [1.5, 2.5, 3.5]
            assert collection.action[member, 0, :, 0].tolist() == [offset, 1 + offset, 2 + offset]
            assert collection.reward[member, 0].tolist() == [offset, 1 + offset, 2 + offset]


def test_the_policy_sees_the_whole_state_and_each_transition_its_row(random_market, make_setup):
    setup = make_setup(random_market(80), [Fold(0, 50, 52, 80)])
    seen = []

    def policy(state):
        seen.append(state.clone())
        return torch.ones(1, 4, 3, dtype=torch.int64)

    environment = setup.environment
    collection = Collection.allocate(1, 4, 8, environment.layout, torch.float64, CPU)
    collect(environment, policy, collection)
    for position, state in enumerate(seen):
        row = collection.row[:, :, position].long()
        assert torch.equal(state[..., :8], collection.prefix[:, :, position])
        assert torch.equal(state[..., 8:], environment.table.rows(row))
        if position:
            assert torch.equal(row, collection.row[:, :, position - 1].long() + 1)
            assert torch.equal(state[..., :8], collection.next_prefix[:, :, position - 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_bankrupt_lane_goes_on_with_a_fresh_episode(random_market, make_setup, constant_policy, dtype):
    setup = make_setup(random_market(120, wild=True), [Fold(0, 100, 102, 120)], dtype=dtype, episodes=32)
    environment = setup.environment
    collection = Collection.allocate(1, 32, 8, environment.layout, dtype, CPU)
    collect(environment, constant_policy(0, 0, 2), collection)
    ended = collection.terminated[0, :, :-1]
    assert int(ended.sum()) > 5
    after = collection.prefix[0, :, 1:][ended]
    assert torch.equal(after[:, 1:], torch.zeros_like(after[:, 1:]))
    begins = collection.episode_start[0, :, 1:][ended]
    expected = torch.arange(1, 8, dtype=torch.int32).expand(32, 7)[ended]
    assert torch.equal(begins, expected)
    assert int(collection.row.min()) >= 0
    assert int(collection.row.max()) + 1 <= 99
