"""The pruner that a search is configured with."""

from __future__ import annotations

import warnings

import optuna
from optuna.pruners import BasePruner, NopPruner, PatientPruner, PercentilePruner

from hpo.config import SearchConfig
from hpo.pruning.halving_pruner import HalvingPruner
from hpo.pruning.paired_pruner import PairedPruner


def make_pruner(search: SearchConfig) -> BasePruner:
    """Builds the pruner that compares a trial's epoch scores with those of the earlier trials.

    ``median`` stops a trial whose best score so far is below the median of the others at that epoch, and
    ``percentile`` one that is not among the best ``percentile`` percent; ``patient`` asks the median only
    about trials without a new best for ``patience`` epochs; ``hyperband`` is
    :class:`hpo.pruning.halving_pruner.HalvingPruner`;
    ``paired`` is :class:`hpo.pruning.paired_pruner.PairedPruner`.
    """
    stopping = search.stopping
    epochs = search.trainer.training.epochs
    if stopping.pruner == "median":
        return _percentile_pruner(search, 50.0)
    if stopping.pruner == "percentile":
        return _percentile_pruner(search, stopping.percentile)
    if stopping.pruner == "patient":
        with warnings.catch_warnings():  # marked experimental since 2021
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return PatientPruner(_percentile_pruner(search, 50.0), stopping.patience)
    if stopping.pruner == "paired":
        return PairedPruner(stopping.level, stopping.grace_epochs, epochs)
    if stopping.pruner == "hyperband":
        return HalvingPruner(stopping.grace_epochs, epochs, startup_of_stopping(search))
    return NopPruner()


def startup_of_stopping(search: SearchConfig) -> int:
    """Trials that end before any is stopped: as given, else half of them, at least two and at most five."""
    given = search.stopping.startup_trials
    return min(5, max(2, search.trials // 2)) if given is None else given


def _percentile_pruner(search: SearchConfig, percentile: float) -> PercentilePruner:
    return PercentilePruner(  # at 50 it is Optuna's MedianPruner
        percentile,
        n_startup_trials=startup_of_stopping(search),
        n_warmup_steps=search.stopping.grace_epochs,
    )
