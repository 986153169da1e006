"""Deflated Sharpe ratio: the best of N trials against the best that luck alone would have given.

Written in full everywhere, because the three letters DSR mean the differential Sharpe ratio.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from trainer.statistics.moments import Moments
from trainer.statistics.probabilistic_sharpe import probabilistic_sharpe

EULER_GAMMA = 0.5772156649015329


def expected_maximum(trials: float) -> float:
    """Expected largest of N independent standard normal draws, by the extreme-value approximation.

    emax(N) = (1 - g) Phi^-1(1 - 1/N) + g Phi^-1(1 - 1/(N e)), g = 0.5772156649; 0 for N = 1. Between
    1 and 2, where an effective number may lie, the formula falls below 0 and 0 is returned.

    Args:
        trials: N >= 1, not necessarily whole.

    Raises:
        ValueError: For ``trials < 1``.

    References:
        Bailey and Lopez de Prado (2014), The deflated Sharpe ratio, Journal of Portfolio Management 40(5).
    """
    if not trials >= 1:
        raise ValueError(f"`trials >= 1` must hold, but got ({trials=})")
    if trials == 1:
        return 0.0
    upper = float(ndtri(1.0 - 1.0 / trials))
    tail = float(ndtri(1.0 - 1.0 / (trials * math.e)))
    return max(0.0, (1.0 - EULER_GAMMA) * upper + EULER_GAMMA * tail)


def effective_trials(trials: int, correlation: float) -> float:
    """Number of independent trials that ``trials`` correlated ones are worth: rho + (1 - rho) N.

    Args:
        trials: N >= 1, every trial started.
        correlation: rho, mean pairwise correlation of the trials' returns; clipped to [0, 1].
    """
    rho = min(max(correlation, 0.0), 1.0)
    return rho + (1.0 - rho) * trials


def mean_correlation(returns: npt.ArrayLike) -> float | None:
    """Mean off-diagonal correlation of the columns of ``returns`` [T, N] that have spread.

    Returns:
        A number in [-1, 1], or None with fewer than two such columns.
    """
    values = np.asarray(returns, dtype=np.float64)
    centred = values - values.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    largest = np.abs(values).max(axis=0, initial=0.0)
    # A column of equal values keeps rounding noise after centring: it has no correlation.
    unit = centred[:, norms > 1e-6 * largest * math.sqrt(max(len(values), 1))]
    count = unit.shape[1]
    if count < 2:
        return None
    total = unit / np.linalg.norm(unit, axis=0)
    squared_length = float(np.square(total.sum(axis=1)).sum())  # = N + sum of off-diagonal correlations
    return float((squared_length - count) / (count * (count - 1)))


def deflation_threshold(ratio_variance: float, trials: float) -> float:
    """SR0 = sqrt(Var SR_n) emax(N): the Sharpe ratio that the best of N worthless trials would show.

    Args:
        ratio_variance: Variance (ddof 1) over trials of the per-observation Sharpe ratio.
        trials: N, every trial started, whatever became of it; or the effective number.

    Raises:
        ValueError: For a negative variance or ``trials < 1``.
    """
    if not ratio_variance >= 0:
        raise ValueError(f"`ratio_variance >= 0` must hold, but got ({ratio_variance=})")
    return math.sqrt(ratio_variance) * expected_maximum(trials)


def deflated_sharpe(
    ratio: float, observations: int, shape: Moments, ratio_variance: float, trials: float
) -> float | None:
    """Probability that the winner's true Sharpe ratio exceeds what selection among N trials explains.

    PSR(SR0) with SR0 of `deflation_threshold`; for N = 1 it is PSR(0).

    Args:
        ratio: The winner's SR per observation.
        observations: T >= 2.
        shape: gamma_3 and gamma_4 (non-excess) of the winner's returns.
        ratio_variance: See `deflation_threshold`; unused for N = 1.
        trials: N >= 1.

    Returns:
        A probability in [0, 1], or None as in `probabilistic_sharpe`.
    """
    threshold = deflation_threshold(ratio_variance, trials)
    return probabilistic_sharpe(ratio, observations, shape, threshold)
