"""How far the means of two groups of seeds lie apart, in units of how seeds of one configuration differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr


@dataclass(frozen=True)
class SeedDifference:
    """The difference of two means.

    Attributes:
        difference: Mean of the first group less that of the second, in the units of the values.
        error: Its standard error, likewise.
        freedom: Degrees of freedom of the error.
    """

    difference: float
    error: float
    freedom: int

    @property
    def statistic(self) -> float:
        """The difference in standard errors; follows Student's t where all seeds are alike."""
        return self.difference / self.error

    @property
    def probability(self) -> float:
        """How often groups of seeds that are alike differ at least as far, in either direction."""
        return 2.0 * float(stdtr(self.freedom, -abs(self.statistic)))


def seed_difference(first: Sequence[float], second: Sequence[float]) -> SeedDifference | None:
    """Compares the means of independent values of equal variance: Student's two-sample t.

    error^2 = s^2 (1 / k + 1 / n), where s^2 is the variance of both groups pooled, with k + n - 2 degrees
    of freedom. A group of one seed adds a value and no variance.

    Args:
        first: k values, at least one.
        second: n values, at least one.

    Returns:
        The difference, or None where the groups hold no spread: two values in all, or equal ones.

    Raises:
        ValueError: For an empty group.

    References:
        Student (1908), The probable error of a mean, Biometrika 6(1).
    """
    groups = [np.asarray(group, dtype=np.float64) for group in (first, second)]
    if any(group.size == 0 for group in groups):
        raise ValueError(f"both groups need a value, but got {[group.size for group in groups]}")
    freedom = sum(group.size for group in groups) - 2
    squares = sum(float(np.square(group - group.mean()).sum()) for group in groups)
    if freedom == 0 or squares == 0.0:
        return None
    error = math.sqrt(squares / freedom * sum(1.0 / group.size for group in groups))
    return SeedDifference(float(groups[0].mean() - groups[1].mean()), error, freedom)
