"""Annualisation: how many bars a year of this file holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainer.data.bars import GAP_STEPS
from trainer.data.timestamps import written
from trainer.errors import ConfigError

DAY_NS = 86400 * 10**9
DAYS_PER_YEAR = 365.2425  # mean Gregorian year
SHORT_SPAN_DAYS = 60
LARGEST_PAUSE = 0.1  # of the span; a pause of more than this decides the count
KEY = "metrics.periods_per_year"


def periods_per_year(timestamp: NDArray[np.int64], override: float | None = None) -> float:
    """Returns (n - 1) / (span / 365.2425 days), or ``override`` if given.

    Args:
        timestamp: [N] int64 ns, strictly increasing.
        override: ``metrics.periods_per_year``.

    Raises:
        ConfigError: With fewer than two bars, or where a span under 60 days has a gap of more than
            three median steps: then nobody can tell sessions from a hole in the data.
    """
    if override is not None:
        return override
    if len(timestamp) < 2:
        raise ConfigError(KEY, f"counting needs 2 bars, but there are {len(timestamp)}; set {KEY}")
    steps = np.diff(timestamp)
    days = float(timestamp[-1] - timestamp[0]) / DAY_NS
    median = float(np.median(steps))
    if days < SHORT_SPAN_DAYS and steps.max() > GAP_STEPS * median:
        raise ConfigError(
            KEY,
            f"ambiguous calendar: the bars span {days:.4g} days, less than {SHORT_SPAN_DAYS}, with a gap of "
            f"{steps.max() / 1e9:.6g} s against a median step of {median / 1e9:.6g} s; set {KEY}, "
            "for example 252 for daily sessions",
        )
    return (len(timestamp) - 1) / (days / DAYS_PER_YEAR)


def pause_warnings(timestamp: NDArray[np.int64]) -> tuple[str, ...]:
    """Returns one sentence where the longest pause takes more than a tenth of the time; empty otherwise.

    Counted bars per year then say how complete the file is, and not how often the market trades.

    Args:
        timestamp: [N] int64 ns, strictly increasing, N >= 2.
    """
    steps = np.diff(timestamp)
    row, span = int(steps.argmax()), float(timestamp[-1] - timestamp[0])
    pause, median = float(steps[row]), float(np.median(steps))
    if pause <= max(LARGEST_PAUSE * span, GAP_STEPS * median):
        return ()
    counted = periods_per_year(timestamp)
    without = len(steps) / ((span - pause + median) / DAY_NS / DAYS_PER_YEAR)
    return (
        f"nothing stands between {written(timestamp[row])}Z and {written(timestamp[row + 1])}Z, "
        f"{100 * pause / span:.0f} % of the time: {KEY} counts that pause as trading ({counted:.2f}, "
        f"without it {without:.2f}); set it, or leave out the bars on one side",
    )
