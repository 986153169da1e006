"""LearnerCache: the learner of a process's last training serves the next one where their shapes agree.

Kernels, captured CUDA graphs, buffers and market tables are what a training's start costs. Weights, moments,
replay, counters, random keys and the per-member hyperparameters are numbers in them, and are set anew.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from trainer.backend import Backend
from trainer.config import TrainerConfig
from trainer.data.market_data import MarketData
from trainer.folds import Fold
from trainer.hyperparameters import Hyperparameters, member_keys
from trainer.market_learner import MarketLearner, build_market_learner
from trainer.market_tables import MarketTables
from trainer.members import Member, keys_of
from trainer.planned_training import check_memory

# Keys that a learner never sees: how long a training runs, how it is scored and kept, its Philox keys.
RUN_KEYS = frozenset(
    {
        "training.epochs",
        "training.updates",
        "training.seed",
        "training.checkpoint_seconds",
        "metrics.objective",
        "metrics.min_trades",
        "metrics.periods_per_year",
    }
)


@dataclass(frozen=True)
class LearnerShape:
    """What two trainings must have in common to share a learner.

    Attributes:
        keys: (``section.name``, value) of every key that is neither a per-member value nor a run key.
        data_hash: Of the market.
        folds: One per member.
        backend: Its name.
        dtype: Floating type.
        device: Where the buffers lie.
    """

    keys: tuple[tuple[str, Any], ...]
    data_hash: str
    folds: tuple[Fold, ...]
    backend: str
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(
        cls, config: TrainerConfig, market: MarketData, folds: tuple[Fold, ...], backend: Backend
    ) -> LearnerShape:
        """Reads the shape of a training."""
        free = member_keys() | RUN_KEYS
        keys = tuple(
            (f"{section}.{name}", value)
            for section, part in config
            for name, value in part
            if f"{section}.{name}" not in free
        )
        return cls(keys, market.data_hash, folds, backend.name, backend.dtype, backend.device)


@dataclass(frozen=True)
class WarmLearner:
    """A learner with what it reads, at the start of a training.

    Attributes:
        shape: What it was built for.
        tables: The market on the device.
        hyper: The per-member values that the learner reads; overwritten by the next training.
        learner: Untrained.
        reused: Whether an earlier training has left it.
    """

    shape: LearnerShape
    tables: MarketTables
    hyper: Hyperparameters
    learner: MarketLearner
    reused: bool = False


class LearnerCache:
    """Holds at most one learner. The training that took it last is over when the next one takes it."""

    def __init__(self) -> None:
        self._kept: WarmLearner | None = None

    def take(
        self,
        config: TrainerConfig,
        market: MarketData,
        folds: tuple[Fold, ...],
        members: tuple[Member, ...],
        backend: Backend,
    ) -> WarmLearner:
        """Resets the kept learner, or lets go of it and builds another.

        Args:
            config: The effective configuration.
            market: Bars and features.
            folds: One per member.
            members: In stack order.
            backend: What trains, where.

        Returns:
            A learner whose state equals that of a newly built one bit for bit.

        Raises:
            MemoryPlanError: The device has too little memory; nothing was allocated on it.
        """
        dtype, device = backend.dtype, backend.device
        shape = LearnerShape.of(config, market, folds, backend)
        kept, self._kept = self._kept, None  # an error leaves nothing behind
        if kept is not None and kept.shape != shape:
            kept = None
            release_memory()
        if kept is None:
            check_memory(config, market, folds, backend.name, device)
        hyper = Hyperparameters.stack([config] * len(members), dtype, device)
        keys = keys_of(members, device)
        if kept is None:
            taken = _build(shape, config, market, hyper, keys, backend)
        else:
            kept.learner.reset(hyper, keys)
            taken = replace(kept, reused=True)
        self._kept = taken
        return taken


def _build(
    shape: LearnerShape,
    config: TrainerConfig,
    market: MarketData,
    hyper: Hyperparameters,
    keys: Tensor,
    backend: Backend,
) -> WarmLearner:
    tables = MarketTables.build(market, shape.folds, config, backend.dtype, backend.device)
    learner = build_market_learner(backend, config, tables, hyper, keys)
    return WarmLearner(shape, tables, hyper, learner)


def release_memory() -> None:
    """Gives back the memory of a learner that nobody holds any more: graphs and their closures are cycles."""
    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
