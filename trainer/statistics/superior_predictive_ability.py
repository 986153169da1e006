"""Test of superior predictive ability: does the best of several policies beat a benchmark beyond luck?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainer.statistics.bootstrap import MINIMUM_OBSERVATIONS, block_length
from trainer.statistics.sharpe import checked_returns, has_spread


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
    from arch.bootstrap import SPA

    base = checked_returns(benchmark)
    columns = np.asarray(policies, dtype=np.float64)
    if columns.ndim != 2 or columns.shape[0] != base.size:
        raise ValueError(f"`policies.shape == (T, N)` must hold with T={base.size}, but got {columns.shape}")
    excess = [column for column in (columns - base[:, None]).T if has_spread(column)]
    if base.size < MINIMUM_OBSERVATIONS or not excess:
        return None
    block = max(block_length(column) for column in excess)
    # The test only sees differences of losses, so the benchmark becomes 0; scaled against underflow.
    losses = -np.stack([column / np.abs(column).max() for column in excess], axis=1)
    test = SPA(np.zeros(base.size), losses, block_size=block, reps=repetitions, seed=seed)
    test.compute()
    return SuperiorAbility(
        lower=float(test.pvalues["lower"]),
        consistent=float(test.pvalues["consistent"]),
        upper=float(test.pvalues["upper"]),
        policies=len(excess),
        block=block,
    )
