"""Test of superior predictive ability: does the best of several policies beat a benchmark beyond luck?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainer.statistics.bootstrap import MINIMUM_OBSERVATIONS, block_length, resampled_counts
from trainer.statistics.sharpe import RELATIVE_SPREAD, Returns, checked_returns, has_spread

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SuperiorAbility:
    """p-values of the hypothesis that no policy has a higher mean return than the benchmark.

    Attributes:
        lower: Liberal: policies worse than the benchmark are left out.
        consistent: The one to quote.
        upper: Conservative: White's reality check, all policies count.
        policies: Number of policies that entered.
        block: Mean block length of the stationary bootstrap, observations.
    """

    lower: float
    consistent: float
    upper: float
    policies: int
    block: int


def superior_predictive_ability(
    benchmark: npt.ArrayLike, policies: npt.ArrayLike, *, repetitions: int = 1000, seed: int = 0
) -> SuperiorAbility | None:
    """Hansen's studentised test with the stationary bootstrap; the loss is the negative return.

    The package takes the largest mean difference as it is, so every difference is divided by its own
    standard deviation under dependence before: a volatile policy must not drown a steady one.

    Args:
        benchmark: [T] returns to beat: zeros for cash, or the market's returns for buy and hold.
        policies: [T, N] returns of every policy that was tried, not only of the best.
        repetitions: Bootstrap samples.
        seed: Of the resampling; the same seed gives the same p-values.

    Returns:
        The p-values, or None for fewer than 16 observations or where no policy differs from the
        benchmark by a series with spread (a column equal to the benchmark, or off by a constant, has no
        studentised statistic and does not enter).

    Raises:
        ValueError: For shapes that do not match or values that are not finite.

    References:
        Hansen (2005), A test for superior predictive ability, JBES 23(4); White (2000), A reality check
        for data snooping, Econometrica 68(5).
    """
    base = checked_returns(benchmark)
    columns = np.asarray(policies, dtype=np.float64)
    if columns.ndim != 2 or columns.shape[0] != base.size:
        raise ValueError(f"`policies.shape == (T, N)` must hold with T={base.size}, but got {columns.shape}")
    excess = [column for column in (columns - base[:, None]).T if has_spread(column)]
    if base.size < MINIMUM_OBSERVATIONS or not excess:
        return None
    block = max(block_length(column) for column in excess)
    gains = np.stack([_studentised(column, block) for column in excess], axis=1)
    mean = gains.mean(axis=0)
    resampled = resampled_counts(base.size, block, repetitions, seed) @ gains / base.size
    # A policy below this is too bad to be the best even in the limit; the deviations are 1 here.
    floor = -math.sqrt(2.0 * math.log(math.log(base.size)) / base.size)

    def share(centre: Matrix) -> float:
        """How often the best of the centred, resampled policies beats the best policy."""
        return float(((resampled - centre).max(axis=1) > mean.max()).mean())

    return SuperiorAbility(
        lower=share(np.maximum(mean, 0.0)),
        consistent=share(np.where(mean >= floor, mean, 0.0)),
        upper=share(mean),
        policies=len(excess),
        block=block,
    )


def long_run_deviation(values: Returns, block: int) -> float:
    """Standard deviation of sqrt(T) times the mean of a series, as the stationary bootstrap sees it.

    omega^2 = gamma_0 + 2 sum_i k_i gamma_i with k_i = (1 - i/T)(1 - p)^i + (i/T)(1 - p)^(T - i) and
    p = 1 / block, which is the bootstrap's own variance and therefore not negative.

    Args:
        values: [T] with spread.
        block: Mean block length, observations.

    References:
        Politis and Romano (1994), The stationary bootstrap, JASA 89(428), lemma 1; Hansen (2005), section 3.
    """
    rows = values.size
    centred = values - values.mean()
    spectrum = np.abs(np.fft.rfft(centred, 2 * rows)) ** 2  # padded: no lag wraps round
    covariances = np.fft.irfft(spectrum)[:rows] / rows
    lag, keep = np.arange(1, rows), 1.0 - 1.0 / block
    kernel = (1.0 - lag / rows) * keep**lag + lag / rows * keep ** (rows - lag)
    variance = covariances[0] + 2.0 * float(kernel @ covariances[1:])
    # A series that turns back on itself within every block leaves rounding noise only.
    return float(np.sqrt(max(variance, RELATIVE_SPREAD**2 * covariances[0])))


def _studentised(values: Returns, block: int) -> Returns:
    scaled: Returns = values / np.abs(values).max()  # against overflow and underflow
    return scaled / long_run_deviation(scaled, block)
