"""summarise_trial: computes the record of a finished trial from the evaluation of its members."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trainer.statistics.bootstrap import Interval, JointIntervals, joint_sharpe_intervals
from trainer.statistics.moments import moments
from trainer.statistics.probabilistic_sharpe import probabilistic_sharpe
from trainer.statistics.sharpe import Returns
from trainer.statistics.sharpe_inference import annualised_standard_error, serial_sharpe
from trainer.trial_statistics import Conduct, Earnings, FoldStatistics, SeedStatistics, TrialStatistics

if TYPE_CHECKING:
    from trainer.evaluation import MemberEvaluation
    from trainer.members import Member

REPETITIONS = 1000
MOST_DRAWS = 2_500_000  # bars drawn by the bootstrap of a trial, some 60 ms; longer tests get fewer samples
FEWEST_REPETITIONS = 200


def summarise_trial(
    members: Sequence[Member], windows: Sequence[MemberEvaluation], periods_per_year: float
) -> TrialStatistics:
    """Computes the record.

    Args:
        members: Seed and fold of every window.
        windows: The evaluation of every member, in the same order.
        periods_per_year: Bars per year.
    """
    ordered = sorted(zip(members, windows, strict=True), key=lambda pair: pair[0].fold)
    seeds = {member.seed: [own for each, own in ordered if each.seed == member.seed] for member in members}
    joined = {seed: np.concatenate([each.returns for each in own]) for seed, own in seeds.items()}
    bars = max(each.size for each in joined.values())
    intervals = seed_intervals(list(joined.values()), periods_per_year)
    each = intervals.each if intervals is not None else (None,) * len(seeds)
    summaries = tuple(
        _seed_statistics(seed, own, joined[seed], interval, periods_per_year)
        for (seed, own), interval in zip(seeds.items(), each, strict=True)
    )
    ratios = [summary.earned.sharpe or 0.0 for summary in summaries]
    longest = max(seeds.values(), key=lambda own: sum(window.returns.size for window in own))
    market = np.concatenate([window.buy_and_hold for window in longest])
    return TrialStatistics(
        periods_per_year=periods_per_year,
        bars=bars,
        sharpe=math.fsum(ratios) / len(ratios),
        seed_spread=float(np.std(ratios, ddof=1)) if len(ratios) > 1 else 0.0,
        interval=None if intervals is None else intervals.mean,
        flat=Earnings.of(np.zeros_like(market), periods_per_year),
        buy_and_hold=Earnings.of(market, periods_per_year),
        seeds=summaries,
        folds=tuple(_fold_statistics(*pair, periods_per_year) for pair in zip(members, windows, strict=True)),
    )


def seed_intervals(joined: Sequence[Returns], periods_per_year: float) -> JointIntervals | None:
    """Intervals of the Sharpe ratios of a trial's seeds and of their mean, by bootstrapping all at once.

    Args:
        joined: [T] bar returns of every seed, its windows joined; the bars after a bankruptcy count 0.
        periods_per_year: Bars per year.

    Returns:
        The intervals, annualised; None for too few bars or where no seed has spread.
    """
    bars = max(each.size for each in joined)
    padded = np.stack([np.pad(each, (0, bars - each.size)) for each in joined], axis=1)
    repetitions = min(REPETITIONS, max(FEWEST_REPETITIONS, MOST_DRAWS // bars))
    return joint_sharpe_intervals(padded, periods_per_year, repetitions=repetitions)


def _seed_statistics(
    seed: int,
    windows: Sequence[MemberEvaluation],
    returns: Returns,
    interval: Interval | None,
    periods_per_year: float,
) -> SeedStatistics:
    earned = Earnings.of(returns, periods_per_year)
    ratio, shape = earned.sharpe or 0.0, moments(returns)
    probability = None
    if shape is not None:
        probability = probabilistic_sharpe(ratio / math.sqrt(periods_per_year), returns.size, shape)
    return SeedStatistics(
        seed=seed,
        earned=earned,
        conduct=Conduct.of(windows, periods_per_year),
        standard_error=annualised_standard_error(ratio, returns.size, periods_per_year),
        interval=interval,
        serial_sharpe=serial_sharpe(returns, periods_per_year),
        probability=probability,
        skewness=None if shape is None else shape.skewness,
        kurtosis=None if shape is None else shape.kurtosis,
    )


def _fold_statistics(member: Member, window: MemberEvaluation, periods_per_year: float) -> FoldStatistics:
    return FoldStatistics(
        seed=member.seed,
        fold=member.fold,
        earned=Earnings.of(window.returns, periods_per_year),
        conduct=Conduct.of([window], periods_per_year),
        flat=Earnings.of(np.zeros_like(window.buy_and_hold), periods_per_year),
        buy_and_hold=Earnings.of(window.buy_and_hold, periods_per_year),
    )
