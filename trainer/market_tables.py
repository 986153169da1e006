"""MarketTables: the bars of a market as the ledger and the networks read them, for every member's fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.config import DataConfig, TrainerConfig
from trainer.data.scaler import fit_scaler
from trainer.errors import ConfigError
from trainer.layout import FeatureTable
from trainer.reference.fills import Bar

if TYPE_CHECKING:
    from trainer.data.bars import Bars
    from trainer.data.market_data import MarketData
    from trainer.folds import Fold

SMALLEST_SIGMA = 1e-6
SMALLEST_TEST_WINDOW = 2  # rows; n rows have n - 1 returns


@dataclass(frozen=True)
class BarTable:
    """What the bar t -> t+1 did, in row t; one floating type.

    Attributes:
        moves: [N - 1, 4] open, high, low, close of bar t+1: price / c_t - 1, or (price - c_t) / capital
            under data.returns = difference.
        notional: [N - 1] |c_t| / capital under data.returns = difference, else None (it would be 1).
    """

    moves: Tensor
    notional: Tensor | None

    @classmethod
    def of(
        cls,
        moves: NDArray[np.float64],
        notional: NDArray[np.float64] | None,
        dtype: torch.dtype,
        device: torch.device,
    ) -> BarTable:
        """Puts what :func:`bar_moves` returns on ``device``."""
        base = None if notional is None else torch.tensor(notional, dtype=dtype, device=device)
        return cls(torch.tensor(moves, dtype=dtype, device=device), base)

    def at(self, row: Tensor) -> tuple[Bar, Tensor | None]:
        """Returns the bars and notionals after the closes ``row`` [M, E] int64, each [M, E]."""
        bar = Bar(*self.moves[row].unbind(-1))
        return bar, None if self.notional is None else self.notional[row]


@dataclass(frozen=True)
class MarketTables:
    """A market for a stack of M members.

    Attributes:
        bars: For training, in the training's floating type.
        exact_bars: The same in float64, for evaluation.
        table: Features, shared; scalers fitted on each member's training window only.
        sigma: [M] deviation of the training window's bar returns, at least 1e-6.
        exact_sigma: [M] float64.
        train_start: [M] int64, first row of the training window.
        train_rows: [M] int64.
        folds: One per member.
        relative: Percent returns; False under data.returns = difference.
        at_close: Market orders fill at the next close instead of the next open.
    """

    bars: BarTable
    exact_bars: BarTable
    table: FeatureTable
    sigma: Tensor
    exact_sigma: Tensor
    train_start: Tensor
    train_rows: Tensor
    folds: tuple[Fold, ...]
    relative: bool
    at_close: bool

    @property
    def members(self) -> int:
        """M."""
        return len(self.folds)

    @classmethod
    def build(
        cls,
        market: MarketData,
        folds: Sequence[Fold],
        config: TrainerConfig,
        dtype: torch.dtype,
        device: torch.device,
    ) -> MarketTables:
        """Builds the tables on ``device``.

        Args:
            market: Bars and features, on the host.
            folds: One per member; members of several seeds repeat theirs.
            config: Return mode, capital, fill rule and lane length.
            dtype: float32 or float64.
            device: Where training runs.

        Raises:
            ConfigError: A training window too short for one lane, or a test window without a return.
        """
        require_windows(folds, config.environment.episode_length)
        relative = config.data.returns == "percent"
        moves, notional = bar_moves(market.bars, config.data)
        sigma = [_deviation(moves[fold.train_start : fold.train_stop - 1, 3]) for fold in folds]
        starts = [fold.train_start for fold in folds]
        rows = [fold.train_stop - fold.train_start for fold in folds]
        return cls(
            bars=BarTable.of(moves, notional, dtype, device),
            exact_bars=BarTable.of(moves, notional, torch.float64, device),
            table=_feature_table(market, folds, dtype, device),
            sigma=torch.tensor(sigma, dtype=dtype, device=device),
            exact_sigma=torch.tensor(sigma, dtype=torch.float64, device=device),
            train_start=torch.tensor(starts, dtype=torch.int64, device=device),
            train_rows=torch.tensor(rows, dtype=torch.int64, device=device),
            folds=tuple(folds),
            relative=relative,
            at_close=(config.environment.fill or market.default_fill) == "next_close",
        )


def require_windows(folds: Sequence[Fold], length: int) -> None:
    """Refuses windows too short to train or to be scored in.

    Args:
        folds: Training and test windows.
        length: Transitions of a lane.

    Raises:
        ConfigError: A training window too short for one lane, or a test window without a return.
    """
    for fold in folds:
        rows = fold.train_stop - fold.train_start
        if rows <= length:
            raise ConfigError(
                "environment.episode_length",
                f"`episode_length < training rows` must hold, but got {length} >= {rows} "
                f"(rows {fold.train_start} to {fold.train_stop}); lower environment.episode_length "
                "or raise walk_forward.train",
            )
        if fold.test_stop - fold.test_start < SMALLEST_TEST_WINDOW:
            raise ConfigError(
                "walk_forward.test",
                f"`test >= {SMALLEST_TEST_WINDOW}` rows must hold, but got "
                f"{fold.test_stop - fold.test_start}; raise walk_forward.test",
            )


def bar_moves(bars: Bars, data: DataConfig) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Returns the moves [N - 1, 4] and, under returns = difference, the notionals [N - 1]."""
    prices = np.stack([bars.open, bars.high, bars.low, bars.close], axis=1).astype(np.float64)
    close = prices[:-1, 3]
    if data.returns == "percent":
        return prices[1:] / close[:, None] - 1, None
    return (prices[1:] - close[:, None]) / data.capital, np.abs(close) / data.capital


def _deviation(returns: NDArray[np.float64]) -> float:
    """Returns the standard deviation (ddof 0, as the scalers of the same window), at least 1e-6."""
    return max(float(np.std(returns)), SMALLEST_SIGMA)


def _feature_table(
    market: MarketData, folds: Sequence[Fold], dtype: torch.dtype, device: torch.device
) -> FeatureTable:
    fitted = {
        fold: fit_scaler(market.features, fold.train_start, fold.train_stop) for fold in dict.fromkeys(folds)
    }
    scalers = [fitted[fold] for fold in folds]  # seeds share the scaler of their fold
    return FeatureTable(
        features=torch.tensor(market.features, dtype=dtype, device=device),
        center=torch.tensor(np.stack([each.center for each in scalers]), dtype=dtype, device=device),
        inverse_scale=torch.tensor(
            np.stack([each.inverse_scale for each in scalers]), dtype=dtype, device=device
        ),
    )
