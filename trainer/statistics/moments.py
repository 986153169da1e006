"""Skewness and kurtosis as the Sharpe statistics use them: population moments, kurtosis not in excess."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainer.statistics.sharpe import checked_returns, has_spread


@dataclass(frozen=True)
class Moments:
    """Shape of a return distribution, without units.

    Attributes:
        skewness: gamma_3, 0 for a normal distribution.
        kurtosis: gamma_4 non-excess, 3 for a normal distribution; never below 1 + gamma_3^2.
    """

    skewness: float
    kurtosis: float


def moments(returns: npt.ArrayLike) -> Moments | None:
    """Standardised third and fourth population moments (divisor T) of ``returns`` [T].

    Returns:
        gamma_3 = m_3 / m_2^(3/2) and gamma_4 = m_4 / m_2^2, or None for returns without spread.

    Raises:
        ValueError: For returns that are not [T] or not finite.
    """
    values = checked_returns(returns)
    if not has_spread(values):
        return None
    scaled = values / np.abs(values).max()
    z = (scaled - scaled.mean()) / scaled.std(ddof=0)
    return Moments(skewness=float((z**3).mean()), kurtosis=float((z**4).mean()))
