"""Splits: adjusted closes are used where a file has them, unadjusted splits are refused where it has none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trainer.data.bar_draft import BarDraft
from trainer.data.timestamps import written
from trainer.errors import ConfigError

KEY = "data.allow_jumps"
HALF_OR_DOUBLE = 0.07  # log distance from 1/2 or 2; a fall of 44 % in a day has happened without a split
WHOLE_TOLERANCE = 0.12  # log distance from 1/n or n beyond two: room for the day's own return
HALVES = ((3, 2), (5, 2), (4, 3))  # splits that are not n:1
HALF_TOLERANCE = 0.03  # these are near ordinary crashes, so open and close must both fit well
CERTAIN = float(np.log(5))  # beyond a fifth or a fivefold, no ratio is asked for
ANOTHER_UNIT = float(np.log(50))  # no market moves so far in a bar, whatever the other bars do
OUTLIER = 8.0  # times the robust deviation of the other returns
NORMAL_TO_MEDIAN = 1.4826  # 1 / Phi^-1(3/4)
ENOUGH = 20  # returns from which a deviation is taken
LONG_STEP = 10  # median steps; after a longer pause a price may really be elsewhere


@dataclass(frozen=True)
class Jump:
    """A suspicious change of price at row ``row`` and the split it looks like, e.g. ``1/4``."""

    row: int
    ratio: float
    likeness: str


def use_adjusted(draft: BarDraft) -> tuple[BarDraft, bool]:
    """Replaces close by ``Adj Close`` and scales open, high and low by the same ratio; True if used."""
    if draft.adjusted is None or draft.returns == "difference":
        return draft, False
    factor = draft.adjusted / draft.close
    opened, close = draft.open * factor, draft.adjusted
    # products round: the range must go on enclosing open and close
    high = np.maximum(draft.high * factor, np.maximum(opened, close))
    low = np.minimum(draft.low * factor, np.minimum(opened, close))
    return replace(draft, open=opened, high=high, low=low, close=close), True


def refuse_splits(draft: BarDraft) -> None:
    """Refuses a close ratio that looks like a split.

    Raises:
        ConfigError: Naming ``data.allow_jumps``, the line, both closes and the split.
    """
    found = jumps(draft)
    if not found:
        return
    first = found[0]
    before, after = draft.close[first.row - 1], draft.close[first.row]
    rows = np.array([jump.row for jump in found], dtype=np.int64)
    raise ConfigError(
        KEY,
        f"{draft.source}, {draft.where(rows)}, column close: {before:g} to {after:g} at "
        f"{written(draft.timestamp[first.row])} is a ratio of {first.ratio:.5g}, close to {first.likeness}, "
        f"like an unadjusted split; add a column Adj Close, adjust the prices, or set {KEY} = true if the "
        "move is real",
    )


def jumps(draft: BarDraft) -> list[Jump]:
    """Lists close ratios near n:1, 1:n, 3:2, 5:2, 4:3 or their inverses, or beyond fivefold."""
    if draft.returns == "difference" or len(draft) < 2:
        return []
    change = np.diff(np.log(draft.close))
    gap = np.log(draft.open[1:] / draft.close[:-1])
    rows = np.flatnonzero(usual_steps(draft) & (np.abs(change) > np.log(4 / 3) - HALF_TOLERANCE))
    found = []
    for row in rows:
        likeness = _likeness(float(change[row]), float(gap[row]))
        if likeness and _stands_out(change, int(row)):
            found.append(Jump(int(row) + 1, float(np.exp(change[row])), likeness))
    return found


def usual_steps(draft: BarDraft) -> NDArray[np.bool_]:
    """Which of the N - 1 steps between bars are no long pause; after one a price may really be elsewhere."""
    steps = np.diff(draft.timestamp)
    usual: NDArray[np.bool_] = steps <= LONG_STEP * np.median(steps)
    return usual


def robust_deviation(values: NDArray[np.float64]) -> float:
    """The standard deviation of normal values [N] around 0, from the median size, which no outlier moves."""
    return NORMAL_TO_MEDIAN * float(np.median(np.abs(values)))


def _likeness(change: float, gap: float) -> str:
    size = abs(change)
    multiple = max(2, round(float(np.exp(size))))
    room = HALF_OR_DOUBLE if multiple == 2 else WHOLE_TOLERANCE
    if size > CERTAIN or abs(size - np.log(multiple)) <= room:
        return f"1/{multiple}" if change < 0 else f"{multiple}/1"
    for top, bottom in HALVES:
        target = np.sign(change) * np.log(top / bottom)
        if abs(change - target) <= HALF_TOLERANCE and abs(gap - target) <= HALF_TOLERANCE:
            return f"{bottom}/{top}" if change < 0 else f"{top}/{bottom}"
    return ""


def _stands_out(change: NDArray[np.float64], row: int) -> bool:
    if abs(change[row]) > ANOTHER_UNIT:
        return True
    others = np.delete(change, row)
    if len(others) < ENOUGH:
        return True
    return bool(abs(change[row]) > OUTLIER * robust_deviation(others))
