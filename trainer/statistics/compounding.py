"""Compounding of simple returns."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from trainer.statistics.sharpe import Returns, checked_returns


def equity(returns: npt.ArrayLike) -> Returns:
    """Compounded equity [T + 1] of ``returns`` [T], beginning with the start capital 1.

    Raises:
        ValueError: For returns that are not [T] or not finite.
    """
    values = checked_returns(returns)
    return np.concatenate([np.ones(1), np.cumprod(1.0 + values)])


def total_return(returns: npt.ArrayLike) -> float:
    """Compounded return of ``returns`` [T], 0.01 = 1 %; 0 for no returns, and always finite.

    A return of -1 anywhere loses everything, however large the gains around it. Growth beyond the
    largest float is that float.

    Raises:
        ValueError: For returns that are not [T] or not finite.
    """
    factors = 1.0 + checked_returns(returns)
    if (factors == 0.0).any():
        return -1.0  # the product would be 0, or infinity times 0
    with np.errstate(over="ignore"):
        growth = float(np.prod(factors))
    return float(np.clip(growth, -sys.float_info.max, sys.float_info.max)) - 1.0
