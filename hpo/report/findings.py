"""The statistics of the best trial, computed once and shown in several places."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hpo.report.records import StudyRecord, TrialRecord
from hpo.report.trial_matrix import TrialMatrix, trial_matrix
from hpo.report.winner import Winner, winner_of
from trainer.evaluation_file import EvaluationRows
from trainer.reports import WalkForwardScore
from trainer.statistics.backtest_length import minimum_backtest_length
from trainer.statistics.backtest_overfitting import Overfitting, backtest_overfitting
from trainer.statistics.deflated_sharpe import (
    deflated_sharpe,
    deflation_threshold,
    effective_trials,
    mean_correlation,
)
from trainer.statistics.moments import Moments
from trainer.statistics.probabilistic_sharpe import probabilistic_sharpe
from trainer.statistics.superior_predictive_ability import SuperiorAbility, superior_predictive_ability
from trainer.statistics.track_record import minimum_track_record

OVERFITTING_BLOCKS = 16


@dataclass(frozen=True)
class Findings:
    """Everything the page says about the winner; None = not defined or not on record.

    Attributes:
        score: The winner's walk-forward score.
        ratio: Its annualised walk-forward Sharpe ratio, mean over seeds.
        periods_per_year: Bars per year.
        started: N, trials started.
        winner: What it earned out of sample, and buy and hold beside it.
        probability: Probabilistic Sharpe ratio against 0.
        deflated: Deflated Sharpe ratio at N.
        luck: Annualised Sharpe ratio that the best of N worthless trials would show.
        effective: Effective number of trials.
        deflated_effective: Deflated Sharpe ratio at that number.
        track_record_years: Minimum track record for 95 %, years.
        backtest_years: Minimum backtest length for N trials and a ratio of 1, years.
        overfitting: PBO over the COMPLETE trials.
        compared: COMPLETE trials whose bars stand side by side for the tests across trials.
        over_cash: Superior predictive ability against cash.
        over_holding: Superior predictive ability against buy and hold.
    """

    score: WalkForwardScore
    ratio: float
    periods_per_year: float
    started: int
    winner: Winner | None
    probability: float | None
    deflated: float | None
    luck: float | None
    effective: float | None
    deflated_effective: float | None
    track_record_years: float | None
    backtest_years: float
    overfitting: Overfitting | None
    compared: int
    over_cash: SuperiorAbility | None
    over_holding: SuperiorAbility | None


def find(study: StudyRecord, best: TrialRecord, rows: EvaluationRows | None) -> Findings | None:
    """Computes the findings about ``best``; None if the study keeps no score of it or no bars were scored.

    Args:
        study: All trials.
        best: The winner, COMPLETE.
        rows: Its out-of-sample bars, or None: then what needs them is None.
    """
    score = best.score
    if score is None or score.years <= 0:
        return None
    bars = _bars_of_a_seed(score)
    periods_per_year = bars / score.years
    ratio = _mean_ratio(score)
    winner = winner_of(best.statistics, rows, periods_per_year)
    shape = None if winner is None else winner.shape
    matrix = None if rows is None else trial_matrix(study, rows)
    variance = _ratio_variance(study)
    rho = None if matrix is None else mean_correlation(matrix.returns)
    effective = None if rho is None else effective_trials(study.started, rho)
    per_bar = ratio / math.sqrt(periods_per_year)
    record = None if shape is None else minimum_track_record(per_bar, shape)
    return Findings(
        score=score,
        ratio=ratio,
        periods_per_year=periods_per_year,
        started=study.started,
        winner=winner,
        probability=None if shape is None else probabilistic_sharpe(per_bar, bars, shape),
        deflated=_deflated(per_bar, bars, shape, variance, study.started),
        luck=_luck(variance, study.started, periods_per_year),
        effective=effective,
        deflated_effective=_deflated(per_bar, bars, shape, variance, effective),
        track_record_years=None if record is None else record / periods_per_year,
        backtest_years=minimum_backtest_length(max(study.started, 1)),
        overfitting=_overfitting(matrix),
        compared=0 if matrix is None else len(matrix.numbers),
        over_cash=_superior(matrix, against_market=False),
        over_holding=_superior(matrix, against_market=True),
    )


def scored_ratios(study: StudyRecord) -> list[float]:
    """Annualised ratio, mean over seeds, of every trial that keeps a score, stopped ones included."""
    return [_mean_ratio(score) for score in _scores(study)]


def _scores(study: StudyRecord) -> list[WalkForwardScore]:
    return [trial.score for trial in study.trials if trial.score is not None and trial.score.years > 0]


def _bars_of_a_seed(score: WalkForwardScore) -> int:
    totals: dict[int, int] = {}
    for fold in score.folds:
        totals[fold.seed] = totals.get(fold.seed, 0) + fold.bars
    return max(max(totals.values()), 2)


def _mean_ratio(score: WalkForwardScore) -> float:
    return math.fsum(ratio for _, ratio in score.per_seed) / len(score.per_seed)


def _ratio_variance(study: StudyRecord) -> float | None:
    """Variance over scored trials of the per-bar Sharpe ratio; None for fewer than two of them."""
    ratios = [
        _mean_ratio(score) / math.sqrt(_bars_of_a_seed(score) / score.years) for score in _scores(study)
    ]
    return float(np.var(ratios, ddof=1)) if len(ratios) > 1 else None


def _deflated(
    ratio: float, bars: int, shape: Moments | None, variance: float | None, trials: float | None
) -> float | None:
    if shape is None or trials is None or (variance is None and trials > 1):
        return None
    return deflated_sharpe(ratio, bars, shape, variance or 0.0, max(trials, 1))


def _luck(variance: float | None, trials: int, periods_per_year: float) -> float | None:
    if variance is None:
        return 0.0 if trials <= 1 else None
    return deflation_threshold(variance, max(trials, 1)) * math.sqrt(periods_per_year)


def _overfitting(matrix: TrialMatrix | None) -> Overfitting | None:
    if matrix is None or matrix.returns.shape[0] < 2 * OVERFITTING_BLOCKS:
        return None
    return backtest_overfitting(matrix.returns, OVERFITTING_BLOCKS)


def _superior(matrix: TrialMatrix | None, *, against_market: bool) -> SuperiorAbility | None:
    if matrix is None:
        return None
    benchmark = matrix.benchmark if against_market else np.zeros_like(matrix.benchmark)
    return superior_predictive_ability(benchmark, matrix.returns)
