"""Does a column know the future? A planted oracle gives every policy a Sharpe ratio that nobody will earn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from trainer.config import TrainerConfig
from trainer.data.features import FEATURE_NAMES
from trainer.data.market_data import MarketData
from trainer.data.synthetic import is_synthetic
from trainer.folds import Split
from trainer.leaks.guard import Judgement, Verdict
from trainer.wording import plural

GUARD = "foreseeing column"
# Prices that only bounce between bid and ask give neighbouring returns a correlation of -.5 (Roll 1984, A
# simple implicit measure of the effective bid-ask spread, Journal of Finance 39(4)).
LARGEST_HONEST = 0.5
WORTH_A_LOOK = 0.25
DEVIATIONS = 4.0  # of an estimated rank correlation, 1 / sqrt(T), added to both bounds
LAGS = (1, 2, 3)  # bars ahead
FEWEST_ROWS = 30
MOST_ROWS = 100_000  # the last ones; more would take seconds and change no verdict

Column = NDArray[np.float64]


@dataclass(frozen=True)
class Foresight:
    """The largest correlation of one column.

    Attributes:
        value: Rank correlation in [-1, 1].
        column: Its name.
        lag: Bars ahead.
    """

    value: float
    column: str
    lag: int


def foreseeing_column(market: MarketData, split: Split, config: TrainerConfig) -> Verdict:
    """Rank correlation of each column, and of its changes, with the returns of the next bars.

    Ranks see an oracle whatever its scale, sign or monotone disguise, and under noise as long as the signal
    prevails; changes see tomorrow's price level. A column that the data bring, volume included, is refused
    above what honest prices can show; the usual features are built from earlier prices, and those of a
    bouncing price do foretell: they are worth a warning. Only rows that a search may see are read, the last
    100,000 of them. A market that is made to be predictable is not judged.
    """
    if is_synthetic(market.name):
        return Verdict(GUARD, Judgement.CLEAN, "a synthetic market is predictable by design")
    rows = min(split.search_rows, MOST_ROWS) - max(LAGS)
    if rows < FEWEST_ROWS:
        return Verdict(GUARD, Judgement.CLEAN, f"too few rows to judge: {split.search_rows}")
    found = list(_foresights(market, split.search_rows - max(LAGS) - rows, rows))
    margin = DEVIATIONS / rows**0.5
    worst = max(found, key=_size)
    brought = max((each for each in found if each.column not in FEATURE_NAMES), key=_size)
    if abs(brought.value) > LARGEST_HONEST + margin:
        return Verdict(
            GUARD,
            Judgement.LEAK,
            f"a column's rank correlation with coming returns must be at most {LARGEST_HONEST + margin:.2f}, "
            f"but {_said(brought)}; remove the column or shift it to the bar where it is known",
        )
    if abs(worst.value) > WORTH_A_LOOK + margin:
        return Verdict(GUARD, Judgement.WARNING, f"{_said(worst)}; see where that comes from")
    return Verdict(GUARD, Judgement.CLEAN, f"the most foretelling: {_said(worst)}")


def _size(found: Foresight) -> float:
    return abs(found.value)


def _said(worst: Foresight) -> str:
    return f"{worst.column!r} has {worst.value:+.2f} with the return {plural(worst.lag, 'bar')} ahead"


def _foresights(market: MarketData, first: int, rows: int) -> Iterator[Foresight]:
    """One per column, of rows [first + 1, first + rows): a change has no first one."""
    close = market.bars.close
    change = np.diff(close)
    returns = change / close[:-1] if market.bars.returns == "percent" else change
    # returns[t + lag - 1] is the return from bar t + lag - 1 to t + lag
    coming = [_ranks(returns[first + lag : first + lag + rows - 1]) for lag in LAGS]
    for name, column in _columns(market):
        window = column[first : first + rows].astype(np.float64)
        known = (_ranks(window[1:]), _ranks(np.diff(window)))
        yield max(
            (
                Foresight(float(ranks @ later), name, lag)
                for ranks in known
                for lag, later in zip(LAGS, coming, strict=True)
            ),
            key=_size,
        )


def _columns(market: MarketData) -> Iterator[tuple[str, NDArray[np.floating[Any]]]]:
    yield from zip(market.feature_names, market.features.T, strict=True)
    yield "volume", market.bars.volume


def _ranks(values: Column) -> Column:
    """Ranks as a vector of mean 0 and length 1, so that a product of two is their correlation."""
    centred = rankdata(values) - (len(values) + 1) / 2
    length = float(np.linalg.norm(centred))
    result: Column = centred / length if length > 0 else centred
    return result
