"""Goal slots and rewards of relabelled rows, by hand."""

import pytest
import torch

from trainer.reference.hindsight_relabel import goal_reward, hindsight_relabel


@pytest.mark.parametrize(
    ("achieved", "goal", "threshold", "reward"),
    [
        ([1.0], [1.0], 0.01, 1.0),
        ([1.0], [2.0], 0.01, -0.01),
        ([0.0, 0.0], [3.0, 4.0], 5.0, -0.01),  # a distance of exactly the threshold is missed
        ([0.0, 0.0], [3.0, 4.0], 5.0625, 1.0),
        ([1.0] * 33, [1.0] * 33, 1e-6, 1.0),
    ],
)
def test_the_reward_is_one_strictly_within_the_threshold_and_else_minus_a_hundredth(
    achieved, goal, threshold, reward
):
    got = goal_reward(
        torch.tensor([[achieved]], dtype=torch.float64),
        torch.tensor([[goal]], dtype=torch.float64),
        torch.tensor([threshold], dtype=torch.float64),
    )
    assert got.tolist() == [[reward]]


def relabelled_pair(achieved_offset: int) -> tuple[list[object], list[object], list[object]]:
    """Relabels row 0 and leaves row 1 of two equal rows; next_state achieves 5."""
    state = torch.tensor([[[9.0, 4.0, 7.0]] * 2])
    next_state = torch.tensor([[[5.0, 5.0, 8.0]] * 2])
    changed = hindsight_relabel(
        state,
        next_state,
        torch.tensor([[0.25, 0.25]]),
        torch.tensor([[[5.0], [5.0]]]),
        achieved_offset,
        torch.tensor([[True, False]]),
        torch.tensor([0.01]),
    )
    return changed.state[0].tolist(), changed.next_state[0].tolist(), changed.reward[0].tolist()


@pytest.mark.parametrize("achieved_offset", [0, 1])
def test_both_goal_slots_take_the_goal_and_the_other_row_stays(achieved_offset):
    state, next_state, reward = relabelled_pair(achieved_offset)
    assert state == [[5.0, 4.0, 7.0], [9.0, 4.0, 7.0]]
    assert next_state == [[5.0, 5.0, 8.0], [5.0, 5.0, 8.0]]
    assert reward == [1.0, 0.25]


def test_with_offset_zero_the_achieved_goal_is_read_before_it_is_overwritten():
    changed = hindsight_relabel(
        torch.zeros(1, 1, 2),
        torch.tensor([[[1.0, 0.0]]]),
        torch.zeros(1, 1),
        torch.tensor([[[2.0]]]),
        0,
        torch.tensor([[True]]),
        torch.tensor([0.01]),
    )
    assert changed.next_state.tolist() == [[[2.0, 0.0]]]
    assert changed.reward[0, 0] == torch.tensor(-0.01)


@pytest.mark.parametrize("goal_dim", [1, 7, 33, 63])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_goals_of_any_width_give_the_same_bits_stacked_and_alone(goal_dim, dtype):
    generator = torch.Generator().manual_seed(goal_dim)
    achieved, noise = (torch.randn(4, 19, goal_dim, generator=generator, dtype=dtype) for _ in range(2))
    goal, threshold = achieved + 0.1 * noise, torch.tensor([0.05, 0.1, 0.5, 1.0], dtype=dtype)
    stacked = goal_reward(achieved, goal, threshold)
    assert stacked.unique().numel() == 2
    for member in range(4):
        at = slice(member, member + 1)
        assert torch.equal(goal_reward(achieved[at], goal[at], threshold[at]), stacked[at])
