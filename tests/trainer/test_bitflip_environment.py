"""The bit-flip task: its rewards, its draws and its success rate."""

import pytest
import torch

from trainer.bitflip_environment import EVALUATION_STEPS, BitFlipEnvironment, success_rate
from trainer.errors import ConfigError

KEYS = torch.tensor([[0, 0], [1, 0]])


def oracle(bits):
    """Flips the first bit that differs from the goal, or bit 0 where none does."""

    def policy(state):
        return (state[..., :bits] != state[..., bits:]).int().argmax(dim=-1, keepdim=True)

    return policy


def test_a_flip_changes_one_bit_and_pays_one_at_the_goal_only():
    environment = BitFlipEnvironment(torch.tensor([[0, 0]]), lanes=64, bits=3, lane_length=3)
    environment.begin_lanes()
    for position in range(3):
        before = environment.observation().prefix.clone()
        action = torch.full((1, 64, 1), position)
        result = environment.step(action, position)
        changed = result.next_prefix != before
        assert torch.equal(changed.sum(-1), torch.ones(1, 64, dtype=torch.int64))
        assert bool(changed[..., 3 + position].all())
        reached = (result.next_prefix[..., :3] == result.next_prefix[..., 3:]).all(-1)
        assert 0 < int(reached.sum()) < 64
        assert torch.equal(result.reward, torch.where(reached, 1.0, -0.01))
        assert not bool(result.terminated.any())


def test_the_layout_has_goal_and_bits_and_one_branch():
    layout = BitFlipEnvironment(KEYS, lanes=2, bits=8).layout
    assert (layout.goal_dim, layout.state_dim, layout.achieved_offset) == (8, 16, 8)
    assert layout.actions_per_branch == (8,)


@pytest.mark.parametrize("bits", [1, 31, 32, 33, 64, 128])
def test_bits_and_goals_are_fair_and_independent(bits):
    environment = BitFlipEnvironment(KEYS, lanes=2000, bits=bits)
    environment.begin_lanes()
    prefix = environment.observation().prefix
    assert set(prefix.unique().tolist()) == {0.0, 1.0}
    assert float((prefix.mean(dim=(0, 1)) - 0.5).abs().max()) < 0.04
    same = (prefix[..., :bits] == prefix[..., bits:]).double().mean(dim=(0, 1))
    assert float((same - 0.5).abs().max()) < 0.04


def test_an_oracle_always_succeeds_and_a_stubborn_policy_hardly_ever():
    environment = BitFlipEnvironment(KEYS, lanes=4, bits=8)
    assert success_rate(environment, oracle(8), 300) == [1.0, 1.0]

    def stubborn(state):
        return torch.zeros(*state.shape[:2], 1, dtype=torch.int64)

    # Reached where the other seven bits agree from the start: 2^-7.
    assert success_rate(environment, stubborn, 4000) == pytest.approx([1 / 128, 1 / 128], abs=0.006)


def test_success_counts_at_any_step_of_the_episode():
    environment = BitFlipEnvironment(KEYS, lanes=4, bits=1, lane_length=3)

    def always_flip(state):
        return torch.zeros(*state.shape[:2], 1, dtype=torch.int64)

    assert success_rate(environment, always_flip, 50) == [1.0, 1.0]


def test_the_success_rate_leaves_the_training_alone_and_uses_other_draws():
    environment = BitFlipEnvironment(KEYS, lanes=64, bits=8)
    environment.begin_lanes()
    before = environment.observation().prefix.clone()
    seen = []

    def record(state):
        seen.append(state.clone())
        return oracle(8)(state)

    success_rate(environment, record, 64)
    assert torch.equal(environment.observation().prefix, before)
    assert environment.steps.item() == 0
    assert not torch.equal(seen[0], before)
    assert EVALUATION_STEPS >= 2**31


@pytest.mark.parametrize("bits", [0, 129])
def test_a_number_of_bits_that_cannot_be_drawn_is_refused(bits):
    with pytest.raises(ConfigError, match=f"bits: .*must hold, but got {bits}"):
        BitFlipEnvironment(KEYS, lanes=1, bits=bits)
