"""PairedPruner: stops a trial that the incumbent beats fold by fold and seed by seed at the same epoch."""

from __future__ import annotations

import math

import numpy as np
import optuna
from optuna.pruners import BasePruner
from optuna.trial import FrozenTrial, TrialState
from scipy.special import stdtr

from hpo.study.attributes import best_trial, read_epoch_sharpes


class PairedPruner(BasePruner):
    """A one-sided paired t test (Student 1908) of a trial against the incumbent.

    Folds differ far more from each other than trials do on one fold. Pairing removes that part of the
    variance, so that a worse trial shows earlier than by its mean score. docs/numerics.md, section 9,
    states the rule and its limits.

    Args:
        level: Probability below which a trial is stopped, at each epoch.
        grace_epochs: No trial is stopped before this epoch.
        epochs: Epochs of a trial; none is stopped at its last.
    """

    def __init__(self, level: float, grace_epochs: int, epochs: int) -> None:
        self._level = level
        self._grace_epochs = grace_epochs
        self._epochs = epochs

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether the trial's last epoch is significantly worse than the incumbent's same epoch.

        The incumbent is the best COMPLETE trial, the asking one left out, whose Sharpe ratios of that epoch
        are known. Without one, or with fewer than two pairs, nothing is stopped.
        """
        epoch = trial.last_step
        if epoch is None or not self._grace_epochs <= epoch < self._epochs:
            return False
        own = read_epoch_sharpes(trial, epoch)
        others = [
            other
            for other in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            if other.number != trial.number and read_epoch_sharpes(other, epoch)
        ]
        incumbent = best_trial(others)
        if incumbent is None:
            return False
        reference = read_epoch_sharpes(incumbent, epoch)
        pairs = sorted(own.keys() & reference.keys())
        return probability_of_no_loss([own[pair] - reference[pair] for pair in pairs]) < self._level


def probability_of_no_loss(differences: list[float]) -> float:
    """The p value of "not worse": P(T_{n-1} <= mean / (sd / sqrt n)), sd with ddof 1.

    Args:
        differences: [n] Sharpe ratios of a trial minus those of the incumbent.

    Returns:
        In [0, 1]; 1 for fewer than two pairs. Without spread it is 0 if all are below 0, else 1.
    """
    count = len(differences)
    if count < 2:
        return 1.0
    mean, spread = float(np.mean(differences)), float(np.std(differences, ddof=1))
    if spread <= 1e-12 * abs(mean):  # equal up to rounding
        return 0.0 if mean < 0 else 1.0
    return float(stdtr(count - 1, mean / (spread / math.sqrt(count))))
