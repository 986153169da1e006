"""What a bar must be, and the mending of those that are not, under ``data.repair``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainer.data.bar_draft import BarDraft
from trainer.data.bars import Floats, Repair
from trainer.errors import DataError

Mask = NDArray[np.bool_]

LARGEST = 1e30  # a larger number is no price, and its square would not fit
MIN_BARS = 2


@dataclass(frozen=True)
class Violation:
    """One broken rule: its words, the rows that break it, and the value of the first."""

    rule: str
    rows: NDArray[np.int64]
    value: str


def violations(draft: BarDraft) -> list[Violation]:
    """Lists every broken rule. A row with an empty cell breaks only the rule of empty cells there."""
    found: list[Violation] = []

    def check(rule: str, broken: Mask, *shown: tuple[str, Floats]) -> None:
        rows = np.flatnonzero(broken)
        if len(rows):
            rows = rows[np.argsort(draft.line[rows], kind="stable")]
            value = ", ".join(f"{name} {values[rows[0]]:.10g}" for name, values in shown)
            found.append(Violation(rule, rows, value))

    for name, values in draft.values():
        check(f"{name} is empty", np.isnan(values), (name, values))
        check(f"{name} is infinite or beyond 1e30", np.abs(values) > LARGEST, (name, values))
        positive = name != "volume" and (draft.returns == "percent" or name == "adj close")
        if positive:
            check(f"{name} <= 0", values <= 0, (name, values))
    top, bottom = np.fmax(draft.open, draft.close), np.fmin(draft.open, draft.close)
    high, low = ("high", draft.high), ("low", draft.low)
    check("high < low", draft.high < draft.low, high, low)
    check("high < max(open, close)", draft.high < top, high, ("max", top))
    check("low > min(open, close)", draft.low > bottom, low, ("min", bottom))
    check("volume < 0", draft.volume < 0, ("volume", draft.volume))
    return found


def mend(draft: BarDraft, repair: Literal["none", "drop", "ffill"]) -> tuple[BarDraft, tuple[Repair, ...]]:
    """Refuses bad bars, or mends them as ``data.repair`` says.

    ``drop`` leaves them out. ``ffill`` replaces each by a flat bar at the last good close with volume 0;
    bad bars before the first good one are left out.

    Raises:
        DataError: Under ``none``, listing for each rule the first five lines, the count and a value;
            otherwise where fewer than two bars are left.
    """
    broken = violations(draft)
    if broken and repair == "none":
        raise DataError(_refusal(draft, broken))
    bad = np.zeros(len(draft), dtype=bool)
    for violation in broken:
        bad[violation.rows] = True
    repairs = [Repair(f"{violation.rule} ({repair})", len(violation.rows)) for violation in broken]
    if repair == "ffill" and bad.any():
        leading = int(np.argmin(bad)) if not bad.all() else len(draft)
        if leading:
            repairs.append(Repair("before the first good bar (dropped)", leading))
        draft = _filled(draft.take(slice(leading, None)), bad[leading:])
    else:
        draft = draft.take(~bad)
    if len(draft) < MIN_BARS:
        raise DataError(
            f"{draft.source}: {MIN_BARS} good bars are needed, but got {len(draft)}; give more rows"
        )
    return draft, tuple(repairs)


def _filled(draft: BarDraft, bad: Mask) -> BarDraft:
    last_good = np.maximum.accumulate(np.where(bad, 0, np.arange(len(draft))))
    close = draft.close[last_good]
    return replace(
        draft,
        open=np.where(bad, close, draft.open),
        high=np.where(bad, close, draft.high),
        low=np.where(bad, close, draft.low),
        close=close,
        volume=np.where(bad, 0.0, draft.volume),
        adjusted=None if draft.adjusted is None else draft.adjusted[last_good],
    )


def _refusal(draft: BarDraft, broken: list[Violation]) -> str:
    listed = "; ".join(f"{item.rule} at {draft.where(item.rows)}, {item.value}" for item in broken)
    fix = 'mend the file, or set data.repair = "drop" or "ffill"'
    if any(item.rule.endswith("<= 0") and not item.rule.startswith("adj") for item in broken):
        fix += ', or data.returns = "difference" where prices <= 0 are real'
    return f"{draft.source}: {listed}; {fix}"
