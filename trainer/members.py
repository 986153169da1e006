"""Members: the stacked trainings of one trial, one per (seed, fold)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.config import TrainerConfig


@dataclass(frozen=True)
class Member:
    """One training of the stack; its random numbers depend on ``seed`` and ``fold`` alone."""

    seed: int
    fold: int


def members_of(config: TrainerConfig, folds: int) -> tuple[Member, ...]:
    """Lists folds x seeds in stack order, ``m = seed_index * folds + fold``."""
    first = config.training.seed
    return tuple(
        Member(seed, fold) for seed in range(first, first + config.training.seeds) for fold in range(folds)
    )


def keys_of(members: Sequence[Member], device: torch.device) -> Tensor:
    """Returns the Philox keys [M, 2] int64, (seed, fold)."""
    return torch.tensor([(member.seed, member.fold) for member in members], dtype=torch.int64, device=device)
