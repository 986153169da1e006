"""The record of what a finished trial did out of sample; it is stored with the trial, beside its bars."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer.statistics.bootstrap import Interval
from trainer.statistics.compounding import total_return
from trainer.statistics.drawdown import max_drawdown
from trainer.statistics.sharpe import Returns, annualised_sharpe
from trainer.whole_file import whole_file

if TYPE_CHECKING:
    from trainer.evaluation import MemberEvaluation

STATISTICS_FILE = "statistics.json"


@dataclass(frozen=True)
class Earnings:
    """What a series of bar returns came to.

    Attributes:
        sharpe: Annualised; None where it is not defined.
        total_return: Compounded, 0.01 = 1 %.
        max_drawdown: At most 0; the start capital is a peak.
    """

    sharpe: float | None
    total_return: float
    max_drawdown: float

    @classmethod
    def of(cls, returns: Returns, periods_per_year: float) -> Earnings:
        """Computes them for ``returns`` [T]."""
        ratio = annualised_sharpe(returns, periods_per_year)
        return cls(ratio, total_return(returns), max_drawdown(returns))


@dataclass(frozen=True)
class Conduct:
    """How a policy traded a stretch of bars.

    Attributes:
        bars: Scored bars T.
        trades: Bars with a change of position other than the forced close.
        turnover: Sum of changes of position, forced closes counted, in units of full exposure.
        exposure: Mean absolute exposure over the bars.
        net_exposure: Mean exposure; near the absolute one, the policy was mostly long.
        hit_rate: Share of the bars with exposure whose net return is above 0; None without such bars.
        cost_drag: Costs paid per year, a fraction of equity.
        bankrupt: Equity reached 0; later bars are not scored.
    """

    bars: int
    trades: int
    turnover: float
    exposure: float
    net_exposure: float
    hit_rate: float | None
    cost_drag: float
    bankrupt: bool

    @classmethod
    def of(cls, windows: Sequence[MemberEvaluation], periods_per_year: float) -> Conduct:
        """Joins one window or several."""
        position = np.concatenate([each.positions for each in windows])
        returns = np.concatenate([each.returns for each in windows])
        costs = np.concatenate([each.costs for each in windows])
        held = returns[position != 0]
        return cls(
            bars=returns.size,
            trades=sum(each.trades for each in windows),
            turnover=math.fsum(each.turnover for each in windows),
            exposure=float(np.abs(position).mean()),
            net_exposure=float(position.mean()),
            hit_rate=float((held > 0).mean()) if held.size else None,
            cost_drag=float(costs.mean()) * periods_per_year,
            bankrupt=any(each.bankrupt for each in windows),
        )


@dataclass(frozen=True)
class FoldStatistics:
    """One seed on one test window, and what cash and the market did on the same bars.

    Attributes:
        seed: The seed's value.
        fold: Fold index in time order.
        earned: Net of costs.
        conduct: How it traded.
        flat: Cash.
        buy_and_hold: A constant exposure of 1 without costs.
    """

    seed: int
    fold: int
    earned: Earnings
    conduct: Conduct
    flat: Earnings
    buy_and_hold: Earnings


@dataclass(frozen=True)
class SeedStatistics:
    """One seed over all its test windows.

    Attributes:
        seed: The seed's value.
        earned: Of the joined windows.
        conduct: Likewise.
        standard_error: Of the annualised ratio, Lo (2002), iid.
        interval: Stationary bootstrap of the annualised ratio; None where it is not defined.
        serial_sharpe: Annualised by Lo's eta(q); None where it is not defined.
        probability: Probabilistic Sharpe ratio against 0; None where it is not defined.
        skewness: gamma_3 of the bar returns; None without spread.
        kurtosis: gamma_4, not in excess.
    """

    seed: int
    earned: Earnings
    conduct: Conduct
    standard_error: float
    interval: Interval | None
    serial_sharpe: float | None
    probability: float | None
    skewness: float | None
    kurtosis: float | None


@dataclass(frozen=True)
class TrialStatistics:
    """A trial's last epoch.

    Attributes:
        periods_per_year: Bars per year.
        bars: T, scored bars of the seed that has most.
        sharpe: Annualised, mean over seeds; an undefined one counts 0.
        seed_spread: Standard deviation (ddof 1) over seeds; 0 for one seed.
        interval: Stationary bootstrap of ``sharpe``: all seeds see the same resampled bars.
        flat: Cash on the bars of the first seed.
        buy_and_hold: A constant exposure of 1 without costs on the same bars.
        seeds: One per seed.
        folds: One per seed and fold.
    """

    periods_per_year: float
    bars: int
    sharpe: float
    seed_spread: float
    interval: Interval | None
    flat: Earnings
    buy_and_hold: Earnings
    seeds: tuple[SeedStatistics, ...]
    folds: tuple[FoldStatistics, ...]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrialStatistics:
        """Rebuilds the record from plain values, as JSON gives them."""
        return cls(
            periods_per_year=values["periods_per_year"],
            bars=values["bars"],
            sharpe=values["sharpe"],
            seed_spread=values["seed_spread"],
            interval=_interval(values["interval"]),
            flat=Earnings(**values["flat"]),
            buy_and_hold=Earnings(**values["buy_and_hold"]),
            seeds=tuple(SeedStatistics(**_rebuilt(each)) for each in values["seeds"]),
            folds=tuple(FoldStatistics(**_rebuilt(each)) for each in values["folds"]),
        )


def write_statistics(path: Path, statistics: TrialStatistics) -> None:
    """Writes the record as JSON, replacing ``path`` in one step; the folder must exist."""
    with whole_file(path) as partial:
        partial.write_text(json.dumps(asdict(statistics), allow_nan=False), encoding="utf-8")


def read_statistics(path: Path) -> TrialStatistics:
    """Reads what `write_statistics` wrote.

    Raises:
        OSError: The file cannot be read.
        ValueError: It holds no such record.
    """
    try:
        return TrialStatistics.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: no statistics of a trial ({error!r})") from None


def _interval(plain: dict[str, Any] | None) -> Interval | None:
    return None if plain is None else Interval(**plain)


def _rebuilt(plain: dict[str, Any]) -> dict[str, Any]:
    """Puts records in place of the plain values of a seed or a fold."""
    records = {"earned": Earnings, "conduct": Conduct, "flat": Earnings, "buy_and_hold": Earnings}
    rebuilt = {key: records[key](**value) if key in records else value for key, value in plain.items()}
    if "interval" in rebuilt:
        rebuilt["interval"] = _interval(rebuilt["interval"])
    return rebuilt
