"""Annualisation: how many bars a year of this file holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainer.data.bars import GAP_STEPS
from trainer.errors import ConfigError

DAY_NS = 86400 * 10**9
DAYS_PER_YEAR = 365.2425  # mean Gregorian year
SHORT_SPAN_DAYS = 60
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
