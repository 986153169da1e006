"""The hold-out: what a trial's newest models earn on the bars that no search has seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainer.data.market_data import MarketData
from trainer.deployed_policy import DeployedPolicy
from trainer.errors import ConfigError
from trainer.folds import Fold, split
from trainer.statistics.compounding import total_return
from trainer.statistics.drawdown import max_drawdown
from trainer.statistics.sharpe import annualised_sharpe
from trainer.statistics.sharpe_inference import annualised_standard_error

SMALLEST_WINDOW = 2  # rows; n rows have n - 1 returns


@dataclass(frozen=True)
class Performance:
    """What one series of bar returns comes to.

    Attributes:
        sharpe: Annualised, ddof 1, risk-free rate 0; None without spread.
        standard_error: Of it (Lo 2002, iid), annualised; None where the ratio is.
        total_return: Compounded, 0.1 = 10 %.
        max_drawdown: At most 0; the start capital counts as a peak.
        bars: How many returns; fewer than the window's after a bankruptcy.
    """

    sharpe: float | None
    standard_error: float | None
    total_return: float
    max_drawdown: float
    bars: int

    @classmethod
    def of(cls, returns: npt.NDArray[np.float64], periods_per_year: float) -> Performance:
        """Measures ``returns`` [T]."""
        ratio = annualised_sharpe(returns, periods_per_year)
        error = None if ratio is None else annualised_standard_error(ratio, returns.size, periods_per_year)
        return cls(ratio, error, total_return(returns), max_drawdown(returns), returns.size)


@dataclass(frozen=True)
class SeedHoldout:
    """One seed's newest model on the hold-out; ``trades`` counts bars with a change of position."""

    seed: int
    performance: Performance
    trades: int
    bankrupt: bool


@dataclass(frozen=True)
class Holdout:
    """All seeds on the hold-out.

    Attributes:
        fold: Fold whose models traded, the last one.
        train: Its windows.
        start: First row of the hold-out.
        stop: One after its last row.
        seeds: In stack order.
        buy_and_hold: A constant exposure of 1 without costs over the same bars.
    """

    fold: int
    train: Fold
    start: int
    stop: int
    seeds: tuple[SeedHoldout, ...]
    buy_and_hold: Performance


def evaluate_holdout(policy: DeployedPolicy, market: MarketData) -> Holdout:
    """Trades rows [holdout_start, N) once with the newest model of every seed.

    Args:
        policy: Of the trial.
        market: The data that it was trained on.

    Raises:
        ConfigError: The data is other data, or leaves no hold-out.
    """
    if market.data_hash != policy.data_hash:
        raise ConfigError(
            "data.path",
            f"the policy was trained on data with hash {policy.data_hash[:12]}, but {market.name} has "
            f"{market.data_hash[:12]}; name the same data with --data",
        )
    rows = len(market.bars)
    cut = split(rows, policy.config.walk_forward)
    if rows - cut.holdout_start < SMALLEST_WINDOW:
        raise ConfigError(
            "walk_forward.holdout_frac",
            f"{policy.config.walk_forward.holdout_frac:g} leaves {rows - cut.holdout_start} of {rows} bars "
            "untouched, and a hold-out needs 2; search again with a larger share",
        )
    members = policy.walk(market, cut.holdout_start, rows).evaluation.members
    periods_per_year = market.periods_per_year
    longest = max(members, key=lambda member: member.bars.size)
    fold = policy.members[0].fold
    return Holdout(
        fold=fold,
        train=cut.folds[fold],
        start=cut.holdout_start,
        stop=rows,
        seeds=tuple(
            SeedHoldout(
                which.seed, Performance.of(each.returns, periods_per_year), each.trades, each.bankrupt
            )
            for which, each in zip(policy.members, members, strict=True)
        ),
        buy_and_hold=Performance.of(longest.buy_and_hold, periods_per_year),
    )
