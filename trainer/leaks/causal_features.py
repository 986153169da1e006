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
from trainer.data.synthetic import is_synthetic
from trainer.folds import Split
from trainer.leaks.guard import Judgement, Verdict
from trainer.wording import nouns, plural

GUARD = "causal features"
CUTS = 3

Builder: TypeAlias = Callable[[Bars], NDArray[np.float32]]


def causal_features(
    market: MarketData, split: Split, config: TrainerConfig, build: Builder = build_features
) -> Verdict:
    """Builds the features of the first k bars alone and compares them with those in use, bit for bit.

    k is drawn from the data hash, so that the same data meet the same cuts. Columns that a source brings
    with it cannot be built again, which is a warning; ``foreseeing_column`` looks at those.
    """
    places = [place for place, name in enumerate(market.feature_names) if name in FEATURE_NAMES]
    names = [market.feature_names[place] for place in places]
    in_use, rebuilt = market.features[:, places], [FEATURE_NAMES.index(name) for name in names]
    rows = len(market.bars)
    draws = np.random.default_rng(int(market.data_hash[:16], 16))
    cuts = [int(cut) for cut in draws.integers(1, rows, size=CUTS)]
    for cut in cuts:
        again = build(market.bars.head(cut))[:, rebuilt]
        differs = np.flatnonzero((again != in_use[:cut]).any(axis=0))
        if differs.size:
            name = names[int(differs[0])]
            return Verdict(
                GUARD,
                Judgement.LEAK,
                f"features of a bar must not change with later bars, but {name!r} does when the history is "
                f"cut at row {cut}; make the feature causal",
            )
    unchanged = f"unchanged when the history is cut at rows {_listed(cuts)}"
    brought = [name for name in market.feature_names if name not in FEATURE_NAMES]
    if not brought:
        return Verdict(GUARD, Judgement.CLEAN, unchanged)
    if is_synthetic(market.name):
        return Verdict(GUARD, Judgement.CLEAN, "the columns of a synthetic market foretell by design")
    return Verdict(
        GUARD,
        Judgement.WARNING,
        f"with the data, {nouns(len(brought), 'column')} {', '.join(map(repr, brought))} came that cannot be "
        "built again, so that no check but the one of foreseeing columns can tell of a look ahead; see that "
        f"each value was known at its bar's close ({plural(len(names), 'column')} built here: "
        f"{unchanged if names else 'none'})",
    )


def _listed(cuts: list[int]) -> str:
    return ", ".join(str(cut) for cut in sorted(cuts))
