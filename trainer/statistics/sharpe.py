"""Sharpe ratio per observation, and the rule that says when it is not defined."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Returns: TypeAlias = npt.NDArray[np.float64]

RELATIVE_SPREAD = 1e-6


def checked_returns(returns: npt.ArrayLike) -> Returns:
    """Converts to float64 [T].

    Raises:
        ValueError: For another shape than [T], or a value that is not finite.
    """
    values = np.asarray(returns, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"`returns.ndim == 1` must hold, but got shape {values.shape}")
    if not np.isfinite(values).all():
        first = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"returns must be finite, but got {values[first]} at index {first}")
    return values


def has_spread(returns: npt.ArrayLike) -> bool:
    """Whether a Sharpe ratio of ``returns`` [T] means anything.

    False for fewer than two returns, for ptp = 0, and for a standard deviation (ddof 1) of at most
    1e-6 of the largest absolute return, where the deviation is rounding noise of a constant series.

    Raises:
        ValueError: See `checked_returns`.
    """
    values = checked_returns(returns)
    if values.size < 2 or float(values.max()) == float(values.min()):
        return False
    return float(_scaled(values).std(ddof=1)) > RELATIVE_SPREAD


def sharpe(returns: npt.ArrayLike) -> float | None:
    """Mean over standard deviation (ddof 1), risk-free rate 0.

    Args:
        returns: [T] simple returns per observation (not net worth, not log returns), 0.01 = 1 %.

    Returns:
        SR = mean(r) / std(r, ddof=1) in units of one over the square root of an observation, or None
        where `has_spread` is False. Computed on r / max|r|, which changes nothing but cannot overflow.

    Raises:
        ValueError: See `checked_returns`.

    References:
        Sharpe (1994), The Sharpe ratio, Journal of Portfolio Management 21(1).
    """
    values = checked_returns(returns)
    if not has_spread(values):
        return None
    scaled = _scaled(values)
    return float(scaled.mean() / scaled.std(ddof=1))


def annualised_sharpe(returns: npt.ArrayLike, periods_per_year: float) -> float | None:
    """`sharpe` times the square root of the observations per year: the iid annualisation.

    Args:
        returns: [T] simple returns per observation.
        periods_per_year: Observations per year, > 0.

    Raises:
        ValueError: For ``periods_per_year <= 0``, and see `checked_returns`.
    """
    if not periods_per_year > 0:
        raise ValueError(f"`periods_per_year > 0` must hold, but got ({periods_per_year=})")
    ratio = sharpe(returns)
    return None if ratio is None else ratio * math.sqrt(periods_per_year)


def _scaled(values: Returns) -> Returns:
    scaled: Returns = values / np.abs(values).max()
    return scaled
