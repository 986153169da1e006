"""Warm start: the best parameters of an earlier study come first, as far as the new space allows them."""

from __future__ import annotations

import optuna

from hpo.sampling.suggestions import suggest
from hpo.study.warm_start import enqueue_best
from trainer.config import Float, SearchSpace

WIDE = {"x": optuna.distributions.FloatDistribution(0, 10), "y": optuna.distributions.FloatDistribution(0, 1)}
SPACE = SearchSpace("new", (Float("learning_rate", 1.0, 5.0), Float("gamma", 0.0, 1.0)))


def earlier(*trials):
    study = optuna.create_study(study_name="old", direction="maximize")
    names = {"learning_rate": WIDE["x"], "gamma": WIDE["y"]}
    for value, rate, gamma, degenerate in trials:
        params = {"learning_rate": rate, "gamma": gamma}
        study.add_trial(
            optuna.trial.create_trial(
                value=value, params=params, distributions=names, user_attrs={"degenerate": degenerate}
            )
        )
    return study


def test_the_best_are_tried_first_in_their_order_and_their_values_are_not_copied():
    new = optuna.create_study(direction="maximize")
    source = earlier((0.1, 1.5, 0.1, []), (0.9, 2.5, 0.2, []), (0.5, 3.5, 0.3, []))
    said = enqueue_best(source, new, SPACE, 2)
    assert said == "warm start from old: tries the 2 best of its 3 trials first"
    asked = [new.ask() for _ in range(2)]
    assert [suggest(trial, SPACE) for trial in asked] == [
        {"learning_rate": 2.5, "gamma": 0.2},
        {"learning_rate": 3.5, "gamma": 0.3},
    ]
    assert [trial.user_attrs["warm_started_from"] for trial in asked] == ["old:1", "old:2"]
    assert all(trial.value is None for trial in new.get_trials())


def test_what_lies_outside_the_new_space_is_drawn_and_degenerate_or_equal_trials_are_left_out():
    new = optuna.create_study(direction="maximize")
    source = earlier((3.0, 9.0, 0.4, []), (2.0, 2.0, 0.5, ["0 trades"]), (1.0, 8.0, 0.4, []))
    enqueue_best(source, new, SPACE, 5)
    (waiting,) = new.get_trials()
    assert waiting.system_attrs["fixed_params"] == {"gamma": 0.4}
    chosen = suggest(new.ask(), SPACE)
    assert chosen["gamma"] == 0.4
    assert 1.0 <= chosen["learning_rate"] <= 5.0
