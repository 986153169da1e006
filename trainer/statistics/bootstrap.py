"""Interval of a Sharpe ratio by the stationary bootstrap, which keeps serial dependence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainer.statistics.sharpe import RELATIVE_SPREAD, Returns, checked_returns, has_spread

MINIMUM_OBSERVATIONS = 16


@dataclass(frozen=True)
class Interval:
    """A two-sided interval.

    Attributes:
        low: Lower end, in the units of the statistic.
        high: Upper end.
        level: Nominal coverage.
        block: Mean block length of the resampling, observations.
    """

    low: float
    high: float
    level: float
    block: int


def block_length(returns: npt.ArrayLike) -> int:
    """Mean block length by Politis and White's rule, at least 1 and at most T / 3.

    Args:
        returns: [T] with spread, T >= 16.

    References:
        Patton, Politis and White (2009), Correction to automatic block-length selection, Econometric
        Reviews 28(4).
    """
    from arch.bootstrap import optimal_block_length

    values = checked_returns(returns)
    best = float(optimal_block_length(values / np.abs(values).max())["stationary"].iloc[0])
    if not math.isfinite(best):
        return 1
    return min(max(1, math.ceil(best)), max(1, values.size // 3))


def resampled_counts(size: int, block: int, repetitions: int, seed: int) -> npt.NDArray[np.float64]:
    """How often each of ``size`` observations stands in each stationary bootstrap sample, [R, T].

    The counts of a sample times a series are its sum over the sample: one product serves all series.

    Args:
        size: T.
        block: Mean block length, observations.
        repetitions: Samples R.
        seed: Of the resampling.

    References:
        Politis and Romano (1994), The stationary bootstrap, JASA 89(428).
    """
    from arch.bootstrap import StationaryBootstrap

    samples = StationaryBootstrap(block, np.arange(size), seed=np.random.default_rng(seed))
    counts = np.empty((repetitions, size))
    for row in counts:
        row[:] = np.bincount(samples.update_indices(), minlength=size)
    return counts


@dataclass(frozen=True)
class JointIntervals:
    """Intervals of several series over the same bars.

    Attributes:
        each: One per series; None for a series without spread.
        mean: Of the mean of their ratios, in which a series without spread counts 0.
    """

    each: tuple[Interval | None, ...]
    mean: Interval


def joint_sharpe_intervals(
    returns: npt.ArrayLike,
    periods_per_year: float,
    *,
    level: float = 0.95,
    repetitions: int = 1000,
    seed: int = 0,
) -> JointIntervals | None:
    """Percentile intervals of the annualised Sharpe ratios of several policies on the same bars.

    Every sample takes the same bars of all of them, because what they share (the market) does not average
    out over them. The mean block length is the largest of the series' own. A sample without spread counts 0,
    like an undefined fold.

    Args:
        returns: [T, S] simple returns.
        periods_per_year: Observations per year.
        level: Coverage in (0, 1).
        repetitions: Bootstrap samples R.
        seed: Of the resampling; the same seed gives the same intervals.

    Returns:
        The intervals in annualised units, or None for T < 16 or where no series has spread.

    Raises:
        ValueError: For a level outside (0, 1).

    References:
        Politis and Romano (1994), The stationary bootstrap, JASA 89(428).
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"`0 < level < 1` must hold, but got ({level=})")
    values = np.asarray(returns, dtype=np.float64)
    spread = [has_spread(column) for column in values.T]
    size = len(values)
    if size < MINIMUM_OBSERVATIONS or not any(spread):
        return None
    block = max(block_length(column) for column, varies in zip(values.T, spread, strict=True) if varies)
    counts = resampled_counts(size, block, repetitions, seed)
    ratios = _ratios(counts, values) * math.sqrt(periods_per_year)

    def interval(column: Returns) -> Interval:
        low, high = np.percentile(column, [50.0 * (1.0 - level), 50.0 * (1.0 + level)])
        return Interval(float(low), float(high), level, block)

    each = (interval(column) if varies else None for column, varies in zip(ratios.T, spread, strict=True))
    return JointIntervals(tuple(each), interval(ratios.mean(axis=1)))


def _ratios(counts: npt.NDArray[np.float64], values: Returns) -> Returns:
    """Sharpe ratios [R, S] of samples that take bar t ``counts[r, t]`` times; 0 without spread."""
    size = len(values)
    scaled = values / np.maximum(np.abs(values).max(axis=0), np.finfo(np.float64).tiny)
    middle = scaled.mean(axis=0)
    centred = scaled - middle  # deviations from it, so that no two large squares are subtracted
    shift = counts @ centred / size
    variance = np.maximum(counts @ centred**2 / size - shift**2, 0.0) * (size / (size - 1))
    deviation = np.sqrt(variance)
    defined = deviation > RELATIVE_SPREAD
    ratio: Returns = np.divide(middle + shift, deviation, out=np.zeros_like(shift), where=defined)
    return ratio
