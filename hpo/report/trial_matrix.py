"""The returns of all COMPLETE trials on the winner's bars, side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpo.report.records import StudyRecord
from trainer.evaluation_file import BarKeys, EvaluationRows

LARGEST_TRIALS = 600  # best ones kept; bounds time and memory of the tests across trials


@dataclass(frozen=True)
class TrialMatrix:
    """Bars times trials.

    Attributes:
        returns: [T, N] net returns, mean over seeds.
        benchmark: [T] return of buy and hold.
        numbers: Trial of each column; one without a readable file or with other test windows has none.
    """

    returns: npt.NDArray[np.float64]
    benchmark: npt.NDArray[np.float64]
    numbers: tuple[int, ...]


def trial_matrix(study: StudyRecord, winner: EvaluationRows) -> TrialMatrix | None:
    """Reads every COMPLETE trial's bars; None if the winner has none.

    A bar after a trial's bankruptcy counts 0. Of more than 600 trials the best are read.
    """
    if winner.ret.size == 0:
        return None
    base = winner.longest_seed()
    keys = base.bar_keys()
    order = np.argsort(keys)
    columns, numbers = [], []
    ranked = sorted(study.complete, key=lambda trial: -(trial.value or 0.0))[:LARGEST_TRIALS]
    for trial in sorted(ranked, key=lambda trial: trial.number):
        rows = study.evaluation(trial.number)
        column = None if rows is None else _aligned(rows, base, order, keys[order])
        if column is not None:
            columns.append(column)
            numbers.append(trial.number)
    if not columns:
        return None
    stacked = np.empty((keys.size, len(columns)))
    stacked[order] = np.stack(columns, axis=1)
    return TrialMatrix(stacked, base.benchmark, tuple(numbers))


def _aligned(
    rows: EvaluationRows, base: EvaluationRows, order: npt.NDArray[np.int64], sorted_keys: BarKeys
) -> npt.NDArray[np.float64] | None:
    """Mean over seeds of the returns at ``sorted_keys`` [T]; None if a row has no such bar.

    ``sorted_keys`` are those of ``base``, a seed of the winner, in ``order``.
    """
    seeds = np.unique(rows.seed).size
    if rows.ret.size == seeds * base.ret.size > 0:
        shape = (seeds, base.ret.size)
        if (rows.time.reshape(shape) == base.time).all() and (rows.fold.reshape(shape) == base.fold).all():
            straight: npt.NDArray[np.float64] = rows.ret.reshape(shape).sum(axis=0)[order] / seeds
            return straight  # nearly every file: the bars of the winner in the same order, seed after seed
    own = rows.bar_keys()
    place = np.searchsorted(sorted_keys, own)
    inside = place < sorted_keys.size
    if own.size == 0 or not inside.all() or not (sorted_keys[place] == own).all():
        return None
    total = np.zeros(sorted_keys.size)
    np.add.at(total, place, rows.ret)
    mean: npt.NDArray[np.float64] = total / seeds
    return mean
