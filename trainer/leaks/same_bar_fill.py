"""Can an order fill at the very price that it was decided on?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trainer import market_tables
from trainer.config import TrainerConfig
from trainer.data.bars import OPEN_IS_CLOSE
from trainer.data.market_data import MarketData
from trainer.data.synthetic import is_synthetic
from trainer.folds import Split
from trainer.leaks.guard import Judgement, Verdict

GUARD = "same-bar fill"


def same_bar_fill(market: MarketData, split: Split, config: TrainerConfig) -> Verdict:
    """Orders are decided at a close and fill in the bar after it: at its open, unless that is the close.

    The prices that the training's ledger fills at are computed once more without the bar after a decision:
    they must be unknown. In data whose opens repeat the close before, a fill at the next open is a fill at
    the deciding price.
    """
    decided = (len(market.bars) - 1) // 2
    if not np.isnan(_fills_without_the_next_bar(market, config, decided)).all():
        return Verdict(
            GUARD,
            Judgement.LEAK,
            f"an order that is decided at the close of row {decided} must fill in row {decided + 1}, but its "
            "prices are known without that row; mend bar_moves in trainer/market_tables.py",
        )
    fill = config.environment.fill or market.default_fill
    share = market.bars.open_equals_last_close
    if is_synthetic(market.name):
        return Verdict(GUARD, Judgement.CLEAN, "a synthetic market opens where it closed by design")
    if fill == "next_open" and share > OPEN_IS_CLOSE:
        return Verdict(
            GUARD,
            Judgement.WARNING,
            f"market orders fill at the next open, but {100 * share:.1f} % of the opens (over "
            f"{100 * OPEN_IS_CLOSE:.0f} %) equal the close that was decided on, a price already seen; "
            'set environment.fill = "next_close"',
        )
    where = fill.replace("_", " ")
    return Verdict(
        GUARD,
        Judgement.CLEAN,
        f"market orders fill at the {where}; {100 * share:.1f} % of the opens equal the close before",
    )


def _fills_without_the_next_bar(
    market: MarketData, config: TrainerConfig, decided: int
) -> NDArray[np.float64]:
    """[4] moves of an order decided at the close of row ``decided``, all later bars being NaN."""
    bars, later = market.bars, np.arange(len(market.bars)) > decided
    opened, high, low, close = (
        np.where(later, np.nan, prices) for prices in (bars.open, bars.high, bars.low, bars.close)
    )
    unknown = replace(bars, open=opened, high=high, low=low, close=close)
    moves, _ = market_tables.bar_moves(unknown, config.data)
    fills: NDArray[np.float64] = moves[decided]
    return fills
