"""Are scalers and deviations that a training uses fitted on the training window of their fold only?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from trainer.config import TrainerConfig
from trainer.data.market_data import MarketData
from trainer.errors import ConfigError
from trainer.folds import Fold, Split
from trainer.leaks.guard import Judgement, Verdict
from trainer.market_tables import MarketTables
from trainer.wording import plural

GUARD = "scaler window"

Real = TypeVar("Real", bound=np.floating[Any])


def scaler_window(market: MarketData, split: Split, config: TrainerConfig) -> Verdict:
    """Builds a training's tables once more for each fold with every other row made NaN: nothing may change.

    The tables are those that the networks read and whose scalers are written with the weights.
    """
    try:
        usual = _tables(market, split.folds, config)
    except ConfigError as error:
        return Verdict(GUARD, Judgement.WARNING, f"not looked at, a training refuses these folds: {error}")
    for number, fold in enumerate(split.folds):
        blind = _tables(_only(market, fold), (fold,), config)
        fitted = (
            ("scaler", usual.table.center[number], blind.table.center[0]),
            ("scaler", usual.table.inverse_scale[number], blind.table.inverse_scale[0]),
            ("deviation of returns", usual.exact_sigma[number], blind.exact_sigma[0]),
        )
        changed = [name for name, seeing, unseeing in fitted if not torch.equal(seeing, unseeing)]
        if changed:
            return Verdict(
                GUARD,
                Judgement.LEAK,
                f"a {changed[0]} must be fitted on its training rows, but that of fold {number} reads rows "
                f"outside [{fold.train_start}, {fold.train_stop}); fit it on that window",
            )
    folds = plural(len(split.folds), "fold")
    return Verdict(GUARD, Judgement.CLEAN, f"every scaler reads its training rows only ({folds})")


def _tables(market: MarketData, folds: tuple[Fold, ...], config: TrainerConfig) -> MarketTables:
    return MarketTables.build(market, folds, config, torch.float32, torch.device("cpu"))


def _only(market: MarketData, fold: Fold) -> MarketData:
    """The market with NaN in every row outside the training window of ``fold``."""

    def seen(values: NDArray[Real]) -> NDArray[Real]:
        result = np.full_like(values, np.nan)
        result[fold.train_start : fold.train_stop] = values[fold.train_start : fold.train_stop]
        return result

    bars = market.bars
    opened, high, low, close = (seen(column) for column in (bars.open, bars.high, bars.low, bars.close))
    return replace(
        market,
        features=seen(market.features),
        bars=replace(bars, open=opened, high=high, low=low, close=close),
    )
