"""Bars: the validated price history that everything else is computed from, and what reading it found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Nanoseconds = NDArray[np.int64]
Fill = Literal["next_open", "next_close"]
Returns = Literal["percent", "difference"]

OPEN_IS_CLOSE = 0.2  # share of opens equal to the close before, above which a fill at the open is no fill
GAP_STEPS = 3.0  # a step of more than this many median steps counts as a gap
SAME_STEP = 1.25  # ratio of two steps; that of months is at most 31:28, that of 4 to 3 hours is another


@dataclass(frozen=True)
class Repair:
    """How many bars broke one rule and were mended."""

    rule: str
    bars: int


@dataclass(frozen=True)
class Findings:
    """What was understood of a source, and what was done to it.

    Attributes:
        source: Name of a market or absolute path of a file.
        dialect: Delimiter, decimal sign, skipped lines; or the kind of the source.
        time_unit: How timestamps were written, e.g. ``epoch ms``.
        time_zone: The zone they were read in.
        reversed: The file ran from newest to oldest.
        duplicates_dropped: Identical repeated rows that were left out.
        adjusted: ``Adj Close`` replaced close, and open, high and low were scaled by the same ratio.
        repairs: Mended bars per rule, under ``data.repair``.
        notes: Further things that were understood, one sentence each.
        warnings: Things that may be wrong, one sentence each.
    """

    source: str
    dialect: str
    time_unit: str
    time_zone: str
    reversed: bool = False
    duplicates_dropped: int = 0
    adjusted: bool = False
    repairs: tuple[Repair, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bars:
    """A price history in time order. Every array has length N.

    Attributes:
        timestamp: int64 nanoseconds since 1970 UTC, strictly increasing; the bar's label in the source.
        open, high, low, close: Finite prices with low <= open, close <= high.
        volume: At least 0; all 0 where the source has none.
        findings: What was understood and mended.
        default_fill: Fill of market orders where ``environment.fill`` is not given.
        returns: ``percent`` (prices above 0) or ``difference`` (any sign, price units).
    """

    timestamp: Nanoseconds
    open: Floats
    high: Floats
    low: Floats
    close: Floats
    volume: Floats
    findings: Findings
    default_fill: Fill = "next_open"
    returns: Returns = "percent"

    def __len__(self) -> int:
        return len(self.timestamp)

    def head(self, rows: int) -> Bars:
        """Returns the first ``rows`` bars."""
        return replace(
            self,
            timestamp=self.timestamp[:rows],
            open=self.open[:rows],
            high=self.high[:rows],
            low=self.low[:rows],
            close=self.close[:rows],
            volume=self.volume[:rows],
        )

    @property
    def open_equals_last_close(self) -> float:
        """Share of bars whose open is exactly the close before; near 0 for traded opens."""
        if len(self) < 2:
            return 0.0
        return float(np.mean(self.open[1:] == self.close[:-1]))

    @property
    def median_step(self) -> float:
        """Median distance of neighbouring bars, seconds."""
        return float(np.median(np.diff(self.timestamp))) / 1e9

    @property
    def regular_step(self) -> float | None:
        """The median step, seconds, if most steps are about as long; ``None`` for bars by volume."""
        steps = np.diff(self.timestamp) / (1e9 * self.median_step)
        return self.median_step if np.mean((steps > 1 / SAME_STEP) & (steps < SAME_STEP)) > 0.5 else None

    @property
    def gaps(self) -> NDArray[np.int64]:
        """Rows after which more than GAP_STEPS median steps pass, int64."""
        steps = np.diff(self.timestamp)
        return np.flatnonzero(steps > GAP_STEPS * np.median(steps))
