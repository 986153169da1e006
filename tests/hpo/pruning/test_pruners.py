from __future__ import annotations

import optuna
import pytest

from hpo.pruning.halving_pruner import HalvingPruner
from hpo.pruning.pruners import make_pruner


def test_the_median_pruner_waits_for_the_grace_epochs(make_search):
    search = make_search(stopping={"pruner": "median", "grace_epochs": 2, "startup_trials": 1})
    study = optuna.create_study(direction="maximize", pruner=make_pruner(search))
    good = study.ask()
    for epoch in (1, 2, 3):
        good.report(1.0, epoch)
    study.tell(good, 1.0)
    bad = study.ask()
    bad.report(-1.0, 1)
    assert not bad.should_prune()
    bad.report(-1.0, 2)
    assert bad.should_prune()


def test_the_default_is_halving_and_none_never_prunes(make_search):
    assert isinstance(make_pruner(make_search(epochs=9)), HalvingPruner)
    assert isinstance(make_pruner(make_search(stopping={"pruner": "none"})), optuna.pruners.NopPruner)


def stopped_at(search, scores, others=((1.0,) * 9, (0.6,) * 9, (0.5,) * 9, (0.4,) * 9)):
    """The first epoch after which a trial with these scores is stopped, beside finished others."""
    study = optuna.create_study(direction="maximize", pruner=make_pruner(search))
    for values in others:
        trial = study.ask()
        for epoch, value in enumerate(values, 1):
            trial.report(value, epoch)
        study.tell(trial, values[-1])
    asked = study.ask()
    for epoch, value in enumerate(scores, 1):
        asked.report(value, epoch)
        if asked.should_prune():
            return epoch
    return None


@pytest.mark.parametrize(("keep", "epoch"), [(25.0, 2), (50.0, None)])
def test_the_percentile_is_the_share_of_trials_that_go_on(make_search, keep, epoch):
    search = make_search(stopping={"pruner": "percentile", "percentile": keep, "startup_trials": 1})
    assert stopped_at(search, (0.65,) * 4) == epoch


@pytest.mark.parametrize(
    ("scores", "epoch"),
    [((0.1, 0.05, 0.05, 0.05, 0.05, 0.05), 5), ((0.1, 0.2, 0.3, 0.4, 0.41, 0.42), None), ((0.9,) * 6, None)],
)
def test_patience_ends_after_epochs_without_a_new_best_below_the_median(make_search, scores, epoch):
    stopping = {"pruner": "patient", "patience": 3, "startup_trials": 1}
    assert stopped_at(make_search(stopping=stopping), scores) == epoch
