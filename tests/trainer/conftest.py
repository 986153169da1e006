"""Small markets and environments, made by hand, that the tests of the trainer share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from trainer.config import TrainerConfig
from trainer.data.bars import Bars, Findings
from trainer.data.market_data import MarketData
from trainer.folds import Fold
from trainer.hyperparameters import Hyperparameters
from trainer.market_environment import MarketEnvironment
from trainer.market_tables import MarketTables
from trainer.training import run_training

CPU = torch.device("cpu")
DAY = 86_400_000_000_000


@pytest.fixture(scope="session")
def make_market() -> Callable[..., MarketData]:
    """Builds a market from closes; opens default to the close before, highs and lows to the extremes."""

    def build(close, open=None, high=None, low=None, features=None) -> MarketData:
        close = np.asarray(close, dtype=np.float64)
        open = np.concatenate([close[:1], close[:-1]]) if open is None else np.asarray(open, dtype=np.float64)
        high = np.maximum(open, close) if high is None else np.asarray(high, dtype=np.float64)
        low = np.minimum(open, close) if low is None else np.asarray(low, dtype=np.float64)
        rows = len(close)
        if features is None:
            features = np.random.default_rng(0).normal(size=(rows, 3))
        bars = Bars(
            timestamp=np.arange(rows, dtype=np.int64) * DAY,
            open=open,
            high=high,
            low=low,
            close=close,
            volume=np.ones(rows),
            findings=Findings(source="test", dialect="", time_unit="", time_zone="UTC"),
        )
        names = tuple(f"f{column}" for column in range(features.shape[1]))
        return MarketData("test", bars, features.astype(np.float32), names, 252.0, "next_open", "test")

    return build


@pytest.fixture(scope="session")
def random_market(make_market) -> Callable[..., MarketData]:
    """A random walk; with ``wild`` prices leap so far that short positions go bankrupt often."""

    def build(rows: int, seed: int = 0, *, wild: bool = False) -> MarketData:
        generator = np.random.default_rng(seed)
        deviation = 0.6 if wild else 0.01
        close = 100 * np.exp(np.cumsum(generator.normal(0, deviation, rows)))
        last = np.concatenate([close[:1], close[:-1]])
        open = last * np.exp(generator.normal(0, deviation / 3, rows))
        high = np.maximum(open, close) * np.exp(np.abs(generator.normal(0, deviation / 3, rows)))
        low = np.minimum(open, close) * np.exp(-np.abs(generator.normal(0, deviation / 3, rows)))
        return make_market(close, open, high, low)

    return build


@dataclass(frozen=True)
class MarketSetup:
    """Everything about a stack on one market."""

    config: TrainerConfig
    tables: MarketTables
    hyper: Hyperparameters
    environment: MarketEnvironment


@pytest.fixture(scope="session")
def make_setup() -> Callable[..., MarketSetup]:
    """Builds tables and environment for (seed, fold) keys; ``configs`` may differ per member."""

    def build(
        market: MarketData,
        folds: Sequence[Fold],
        keys: Sequence[tuple[int, int]] | None = None,
        dtype: torch.dtype = torch.float64,
        configs: Sequence[TrainerConfig] | None = None,
        **overrides: object,
    ) -> MarketSetup:
        base = TrainerConfig().with_overrides({"episodes": 4, "episode_length": 8, **overrides})
        configs = [base] * len(folds) if configs is None else configs
        keys = [(0, fold) for fold in range(len(folds))] if keys is None else keys
        hyper = Hyperparameters.stack(configs, dtype, CPU)
        tables = MarketTables.build(market, folds, configs[0], dtype, CPU)
        key = torch.tensor(keys, dtype=torch.int64)
        environment = MarketEnvironment(tables, configs[0], hyper, key, dtype, CPU)
        return MarketSetup(configs[0], tables, hyper, environment)

    return build


@pytest.fixture(scope="session")
def constant_policy() -> Callable[..., Callable[[Tensor], Tensor]]:
    """Builds a policy that always takes the same index in every branch."""

    def build(*indices: int) -> Callable[[Tensor], Tensor]:
        chosen = torch.tensor(indices, dtype=torch.int64)
        return lambda state: chosen.expand(*state.shape[:2], -1)

    return build


TINY = {
    "folds": 3,
    "trunk_widths": (8,),
    "head_width": 4,
    "num_atoms": 5,
    "batch_size": 8,
    "episodes": 2,
    "episode_length": 16,
    "capacity": 64,
    "updates": 2,
    "epochs": 1,
    "min_folds": 1,
}


@pytest.fixture(scope="session")
def train_tiny(tmp_path_factory) -> Callable[..., Path]:
    """Trains a tiny stack for a fraction of a second; returns the folder with weights and evaluation."""

    def build(market: MarketData, **overrides: object) -> Path:
        directory = tmp_path_factory.mktemp("tiny")
        run_training(TrainerConfig().with_overrides({**TINY, **overrides}), market, directory)
        return directory

    return build
