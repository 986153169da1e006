"""collect: let a policy act for one lane length in every lane and write down what happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from trainer.environment import Environment
from trainer.layout import assemble
from trainer.transitions import Collection

Policy: TypeAlias = Callable[[Tensor], Tensor]
"""States [M, E, S] float to actions [M, E, K] int64."""


def collect(environment: Environment, policy: Policy, collection: Collection) -> None:
    """Fills ``collection`` with E lanes of exactly L transitions per member.

    The last transition of a lane is truncated: its bootstrap stays, unless it also terminated.

    Args:
        environment: M x E lanes; its lanes begin afresh.
        policy: Called once per step.
        collection: Buffers [M, E, L, ...], overwritten.
    """
    environment.begin_lanes()
    for position in range(environment.lane_length):
        observation = environment.observation()
        action = policy(assemble(observation.prefix, environment.table, observation.row))
        collection.prefix[:, :, position] = observation.prefix
        collection.row[:, :, position] = observation.row
        collection.action[:, :, position] = action
        result = environment.step(action, position)
        collection.next_prefix[:, :, position] = result.next_prefix
        collection.reward[:, :, position] = result.reward
        collection.terminated[:, :, position] = result.terminated
    collection.truncated.zero_()
    collection.truncated[:, :, -1] = True
    _mark_episodes(collection)


def _mark_episodes(collection: Collection) -> None:
    """Writes where in the lane each transition's episode starts and stops (exclusive)."""
    terminated = collection.terminated
    length = terminated.shape[2]
    after = torch.arange(1, length + 1, dtype=torch.int32, device=terminated.device).expand_as(terminated)
    stop = torch.where(terminated, after, length)
    collection.episode_stop.copy_(stop.flip(2).cummin(dim=2).values.flip(2))
    start = torch.where(terminated, after, 0)[:, :, :-1]
    collection.episode_start[:, :, 0] = 0
    collection.episode_start[:, :, 1:] = start.cummax(dim=2).values
