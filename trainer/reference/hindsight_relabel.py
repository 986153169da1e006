"""hindsight_relabel: gives the first rows of a batch another goal and the reward that goal pays.

Andrychowicz et al. 2017, "Hindsight Experience Replay", algorithm 1 and section 3.2 (sparse reward).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

REACHED_REWARD = 1.0
MISSED_REWARD = -0.01


class Relabelled(NamedTuple):
    """The parts of a batch that a new goal changes."""

    state: Tensor  # [M, B, S] float
    next_state: Tensor  # [M, B, S] float
    reward: Tensor  # [M, B] float


def goal_reward(achieved: Tensor, goal: Tensor, threshold: Tensor) -> Tensor:
    """Returns +1 where ||achieved - goal||_2 < threshold, else -.01.

    Squares are added in ascending order of the goal's columns, so that a kernel can agree exactly.

    Args:
        achieved: [M, B, G] float.
        goal: [M, B, G] float.
        threshold: [M] float.

    Returns:
        [M, B] float.
    """
    squared = torch.zeros_like(achieved[..., 0])
    for difference in (achieved - goal).unbind(-1):
        squared = squared + difference * difference
    reached = torch.sqrt(squared) < threshold[:, None]
    missed = torch.full_like(squared, MISSED_REWARD)
    return torch.where(reached, REACHED_REWARD, missed)


def hindsight_relabel(
    state: Tensor,
    next_state: Tensor,
    reward: Tensor,
    goal: Tensor,
    achieved_offset: int,
    relabelled: Tensor,
    threshold: Tensor,
) -> Relabelled:
    """Writes ``goal`` into both goal slots of the relabelled rows and recomputes their reward.

    The achieved goal of a row is next_state[offset : offset + G], read before the goal slot is
    overwritten: with offset 0 they are the same columns. Other rows pass through bit for bit.

    Args:
        state: [M, B, S] float, desired goal in the first G columns.
        next_state: [M, B, S] float, likewise.
        reward: [M, B] float, the environment's.
        goal: [M, B, G] float, the donors' achieved goals.
        achieved_offset: Column of the achieved goal.
        relabelled: [M, B] bool.
        threshold: [M] float, distance below which a goal counts as reached.
    """
    width = goal.shape[-1]
    achieved = next_state[..., achieved_offset : achieved_offset + width]
    new_reward = torch.where(relabelled, goal_reward(achieved, goal, threshold), reward)
    return Relabelled(
        state=_with_goal(state, goal, relabelled),
        next_state=_with_goal(next_state, goal, relabelled),
        reward=new_reward,
    )


def _with_goal(state: Tensor, goal: Tensor, relabelled: Tensor) -> Tensor:
    width = goal.shape[-1]
    slot = torch.where(relabelled[..., None], goal, state[..., :width])
    return torch.cat([slot, state[..., width:]], dim=-1)
