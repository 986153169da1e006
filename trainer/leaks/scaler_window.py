"""Is the scaler of a fold fitted on its training window only?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainer.config import TrainerConfig
from trainer.data.market_data import MarketData
from trainer.data.scaler import Scaler, fit_scaler
from trainer.folds import Split
from trainer.leaks.guard import Judgement, Verdict

GUARD = "scaler window"

Fit: TypeAlias = Callable[[NDArray[np.float32], int, int], Scaler]


def scaler_window(market: MarketData, split: Split, config: TrainerConfig, fit: Fit = fit_scaler) -> Verdict:
    """Fits each fold's scaler once more with every other row made NaN: nothing may change."""
    poisoned = np.empty_like(market.features)
    for number, fold in enumerate(split.folds):
        poisoned.fill(np.nan)
        window = slice(fold.train_start, fold.train_stop)
        poisoned[window] = market.features[window]
        usual = fit(market.features, fold.train_start, fold.train_stop)
        blind = fit(poisoned, fold.train_start, fold.train_stop)
        same = np.array_equal(usual.center, blind.center)
        if not (same and np.array_equal(usual.inverse_scale, blind.inverse_scale)):
            return Verdict(
                GUARD,
                Judgement.LEAK,
                f"a scaler must be fitted on its training rows, but that of fold {number} reads rows outside "
                f"[{fold.train_start}, {fold.train_stop}); fit it on that window",
            )
    return Verdict(GUARD, Judgement.CLEAN, f"{len(split.folds)} scalers read their training rows only")
