"""What the winner earned out of sample: from the trial's own record, or from its bars where none is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainer.evaluation_file import EvaluationRows
from trainer.statistics.bootstrap import Interval
from trainer.statistics.moments import Moments, moments
from trainer.statistics.sharpe_inference import serial_sharpe
from trainer.trial_statistics import Earnings, TrialStatistics
from trainer.trial_summary import seed_intervals


@dataclass(frozen=True)
class Winner:
    """Means over seeds.

    Attributes:
        policy: What it earned; a ratio that is not defined counts 0.
        benchmark: What buy and hold earned on the same bars.
        shape: Moments of the bar returns, over the seeds with spread; None if no seed has any.
        serial_ratio: Annualised ratio with Lo's eta(q); None if it is not defined for one of the seeds.
        interval: Bootstrap interval of the annualised ratio; None where it is not defined.
    """

    policy: Earnings
    benchmark: Earnings
    shape: Moments | None
    serial_ratio: float | None
    interval: Interval | None


def winner_of(
    record: TrialStatistics | None, rows: EvaluationRows | None, periods_per_year: float
) -> Winner | None:
    """Reads the record; without one, computes the same from the bars.

    Args:
        record: Of the trial.
        rows: Its bars.
        periods_per_year: Bars per year.

    Returns:
        None without both.
    """
    if record is not None:
        return _of_the_record(record)
    return None if rows is None else _of_the_bars(rows, periods_per_year)


def _of_the_record(record: TrialStatistics) -> Winner:
    return Winner(
        policy=_mean_earnings([each.earned for each in record.seeds]),
        benchmark=record.buy_and_hold,
        shape=_mean_shape(
            [
                Moments(each.skewness, each.kurtosis)
                for each in record.seeds
                if each.skewness is not None and each.kurtosis is not None
            ]
        ),
        serial_ratio=_mean_if_all([each.serial_sharpe for each in record.seeds]),
        interval=record.interval,
    )


def _of_the_bars(rows: EvaluationRows, periods_per_year: float) -> Winner:
    seeds = rows.of_each_seed()
    returns = [own.ret for own in seeds]
    intervals = seed_intervals(returns, periods_per_year)
    return Winner(
        policy=_mean_earnings([Earnings.of(each, periods_per_year) for each in returns]),
        benchmark=Earnings.of(rows.longest_seed().benchmark, periods_per_year),
        shape=_mean_shape([shape for shape in map(moments, returns) if shape is not None]),
        serial_ratio=_mean_if_all([serial_sharpe(each, periods_per_year) for each in returns]),
        interval=None if intervals is None else intervals.mean,
    )


def _mean_earnings(seeds: Sequence[Earnings]) -> Earnings:
    return Earnings(
        sharpe=float(np.mean([each.sharpe or 0.0 for each in seeds])),
        total_return=float(np.mean([each.total_return for each in seeds])),
        max_drawdown=float(np.mean([each.max_drawdown for each in seeds])),
    )


def _mean_shape(shapes: Sequence[Moments]) -> Moments | None:
    if not shapes:
        return None
    return Moments(
        skewness=float(np.mean([shape.skewness for shape in shapes])),
        kurtosis=float(np.mean([shape.kurtosis for shape in shapes])),
    )


def _mean_if_all(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None
