"""Are the features of a bar a function of that bar and earlier ones only?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainer.config import TrainerConfig
from trainer.data.bars import Bars
from trainer.data.features import FEATURE_NAMES, build_features
from trainer.data.market_data import MarketData
from trainer.folds import Split
from trainer.leaks.guard import Judgement, Verdict

GUARD = "causal features"
CUTS = 3

Builder: TypeAlias = Callable[[Bars], NDArray[np.float32]]


def causal_features(
    market: MarketData, split: Split, config: TrainerConfig, build: Builder = build_features
) -> Verdict:
    """Builds the features of the first k bars alone and compares them with those in use, bit for bit.

    k is drawn from the data hash, so that the same data meet the same cuts. Columns that a source brings
    with it cannot be built again; ``foreseeing_column`` looks at those.
    """
    if market.feature_names != FEATURE_NAMES:
        return Verdict(GUARD, Judgement.CLEAN, "the columns come with the data and are not built from bars")
    rows = len(market.bars)
    draws = np.random.default_rng(int(market.data_hash[:16], 16))
    cuts = [int(cut) for cut in draws.integers(1, rows, size=CUTS)]
    for cut in cuts:
        again = build(market.bars.head(cut))
        differs = np.flatnonzero((again != market.features[:cut]).any(axis=0))
        if differs.size:
            name = market.feature_names[int(differs[0])]
            return Verdict(
                GUARD,
                Judgement.LEAK,
                f"features of a bar must not change with later bars, but {name!r} does when the history is "
                f"cut at row {cut}; make the feature causal",
            )
    return Verdict(GUARD, Judgement.CLEAN, f"unchanged when the history is cut at rows {_listed(cuts)}")


def _listed(cuts: list[int]) -> str:
    return ", ".join(str(cut) for cut in sorted(cuts))
