"""Interval of a Sharpe ratio by the stationary bootstrap, which keeps serial dependence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainer.statistics.sharpe import Returns, checked_returns, has_spread, sharpe

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


def sharpe_interval(
    returns: npt.ArrayLike,
    periods_per_year: float,
    *,
    level: float = 0.95,
    repetitions: int = 1000,
    seed: int = 0,
) -> Interval | None:
    """Percentile interval of the annualised Sharpe ratio.

    Args:
        returns: [T] simple returns.
        periods_per_year: Observations per year.
        level: Coverage in (0, 1).
        repetitions: Bootstrap samples.
        seed: Of the resampling; the same seed gives the same interval.

    Returns:
        The interval in annualised units, or None for fewer than 16 returns or returns without spread.
        A bootstrap sample without spread counts 0, like an undefined fold.

    Raises:
        ValueError: For a level outside (0, 1).

    References:
        Politis and Romano (1994), The stationary bootstrap, JASA 89(428).
    """
    from arch.bootstrap import StationaryBootstrap

    if not 0.0 < level < 1.0:
        raise ValueError(f"`0 < level < 1` must hold, but got ({level=})")
    values = checked_returns(returns)
    if values.size < MINIMUM_OBSERVATIONS or not has_spread(values):
        return None
    block = block_length(values)

    def statistic(sample: Returns) -> npt.NDArray[np.float64]:
        return np.array([sharpe(sample) or 0.0])

    resampling = StationaryBootstrap(block, values, seed=np.random.default_rng(seed))
    ends = resampling.conf_int(statistic, reps=repetitions, method="percentile", size=level)
    low, high = (float(end) * math.sqrt(periods_per_year) for end in ends[:, 0])
    return Interval(low=low, high=high, level=level, block=block)
