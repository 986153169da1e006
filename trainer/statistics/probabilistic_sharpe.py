"""Probabilistic Sharpe ratio: how likely the true ratio exceeds a threshold, given skew and fat tails."""

from __future__ import annotations

import math

from scipy.special import ndtr

from trainer.statistics.moments import Moments

ROUNDING = 1e-9


def ratio_variance_factor(ratio: float, shape: Moments) -> float:
    """1 - g3 SR + (g4 - 1) / 4 SR^2, i.e. T - 1 times the variance of the estimated Sharpe ratio.

    Args:
        ratio: SR per observation.
        shape: gamma_3 and gamma_4 (non-excess) of the returns.

    Raises:
        ValueError: For moments that no distribution has, gamma_4 < 1 + gamma_3^2.
    """
    if shape.kurtosis < 1.0 + shape.skewness**2 - ROUNDING * shape.kurtosis:
        raise ValueError(
            "`kurtosis >= 1 + skewness**2` must hold (kurtosis is not the excess), but got "
            f"({shape.kurtosis=}, {shape.skewness=})"
        )
    return 1.0 - shape.skewness * ratio + (shape.kurtosis - 1.0) / 4.0 * ratio * ratio


def probabilistic_sharpe(
    ratio: float, observations: int, shape: Moments, threshold: float = 0.0
) -> float | None:
    """PSR(SR*) = Phi((SR - SR*) sqrt(T - 1) / sqrt(1 - g3 SR + (g4 - 1) / 4 SR^2)).

    Args:
        ratio: SR, estimated, per observation (not annualised).
        observations: T >= 2.
        shape: gamma_3 and gamma_4 (non-excess) of the returns.
        threshold: SR*, per observation.

    Returns:
        A probability in [0, 1], or None where the estimated variance is not positive, which only a
        distribution on two points can reach.

    Raises:
        ValueError: For ``observations < 2`` or impossible moments.

    References:
        Bailey and Lopez de Prado (2012), The Sharpe ratio efficient frontier, Journal of Risk 15(2).
    """
    if observations < 2:
        raise ValueError(f"`observations >= 2` must hold, but got ({observations=})")
    factor = ratio_variance_factor(ratio, shape)
    if factor <= 0:
        return None
    return float(ndtr((ratio - threshold) * math.sqrt(observations - 1) / math.sqrt(factor)))
