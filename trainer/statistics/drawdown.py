"""Drawdown of compounded returns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainer.statistics.compounding import equity
from trainer.statistics.sharpe import Returns


def drawdowns(returns: npt.ArrayLike) -> Returns:
    """Equity over its running peak minus 1, [T + 1] in [-1, 0]; the start capital counts as a peak.

    Args:
        returns: [T] simple returns, each at least -1.

    Raises:
        ValueError: For returns that are not [T] or not finite.
    """
    curve = equity(returns)
    peak: Returns = np.maximum.accumulate(curve)
    depth: Returns = curve / peak - 1.0
    return depth


def max_drawdown(returns: npt.ArrayLike) -> float:
    """Deepest drawdown as a number <= 0, -0.1 = 10 % below the peak; 0 for no returns."""
    return float(drawdowns(returns).min())
