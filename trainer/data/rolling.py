"""Sums, means and extremes over the last ``window`` bars, identical whatever follows.

Running totals (cumulative sums, online means) depend on everything before the window and on how the
array is split over vector registers. Here a window of 2w is the window of w plus the same window w bars
earlier: a fixed tree of additions per bar, log2(window) passes over the array, and so the value at bar t
is the same bits whether or not bars after t exist. Before the first bar a sum sees zeros and an extreme
sees nothing; a mean divides by the bars that exist.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def delayed(values: Floats, bars: int, fill: float = 0.0) -> Floats:
    """Returns values[t - bars] at t, and ``fill`` before the start. Shapes [N]."""
    result = np.full_like(values, fill)
    if bars < len(values):
        result[bars:] = values[: len(values) - bars]
    return result


def change_over(values: Floats, bars: int) -> Floats:
    """Returns values[t] - values[max(t - bars, 0)]. Shapes [N]."""
    return values - delayed(values, bars, fill=float(values[0]))


def rolling_sum(values: Floats, window: int) -> Floats:
    """Returns the sum of the last ``window`` values. Shapes [N]."""
    total = np.zeros_like(values)
    block, size, offset = values, 1, 0
    while True:
        if window & size:
            total = total + delayed(block, offset)
            offset += size
        if 2 * size > window:
            return total
        block = block + delayed(block, size)
        size *= 2


def rolling_mean(values: Floats, window: int) -> Floats:
    """Returns the mean of the last ``window`` values, of fewer at the start. Shapes [N]."""
    return rolling_sum(values, window) / np.minimum(np.arange(1, len(values) + 1), window)


def rolling_max(values: Floats, window: int) -> Floats:
    """Returns the largest of the last ``window`` values. Shapes [N]."""
    block, size = values, 1
    while 2 * size <= window:
        block = np.maximum(block, delayed(block, size, fill=-np.inf))
        size *= 2
    return np.maximum(block, delayed(block, window - size, fill=-np.inf))


def rolling_min(values: Floats, window: int) -> Floats:
    """Returns the smallest of the last ``window`` values. Shapes [N]."""
    return -rolling_max(-values, window)


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Returns numerator / denominator, 0 where the denominator is not positive, within +-1e6. Shapes [N]."""
    result = np.zeros_like(numerator)
    with np.errstate(over="ignore"):
        np.divide(numerator, denominator, out=result, where=denominator > 0)
    return np.clip(result, -1e6, 1e6)
