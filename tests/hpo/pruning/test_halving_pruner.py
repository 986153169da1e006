"""Halving: rungs, brackets, who goes on, and the same decisions after a resume."""

from __future__ import annotations

from collections import Counter

import optuna
import pytest

from hpo.pruning.halving_pruner import HalvingPruner


def study_with(pruner, scores, name="s"):
    """A study of COMPLETE trials, one list of epoch scores each."""
    study = optuna.create_study(study_name=name, direction="maximize", pruner=pruner)
    for values in scores:
        trial = study.ask()
        for epoch, value in enumerate(values, 1):
            trial.report(value, epoch)
        study.tell(trial, values[-1])
    return study


def asked_at(study, *values):
    """Whether a new trial is stopped after each of its epochs."""
    trial = study.ask()
    answers = []
    for epoch, value in enumerate(values, 1):
        trial.report(value, epoch)
        answers.append(trial.should_prune())
    return answers


@pytest.mark.parametrize(
    ("grace", "epochs", "rungs"),
    [(2, 5, [(2,)]), (2, 20, [(2, 6, 18), (6, 18), (18,)]), (1, 9, [(1, 3), (3,)]), (4, 4, [()])],
)
def test_a_bracket_begins_three_times_later_than_the_one_before_and_no_rung_is_the_last_epoch(
    grace, epochs, rungs
):
    pruner = HalvingPruner(grace, epochs, 0)
    assert [pruner.rungs(bracket) for bracket in range(pruner.brackets)] == rungs


def test_trials_fall_into_brackets_by_hyperbands_shares_9_5_3():
    pruner = HalvingPruner(2, 20, 0)
    counts = Counter(pruner.bracket("study", number) for number in range(17_000))
    for bracket, share in enumerate((9, 5, 3)):
        assert counts[bracket] == pytest.approx(share * 1000, rel=0.1)


@pytest.mark.parametrize(("score", "stopped"), [(0.75, False), (0.65, True), (float("nan"), True)])
def test_the_best_third_of_those_that_reached_the_rung_goes_on(score, stopped):
    study = study_with(HalvingPruner(2, 5, 0), [[0.0, each / 10, 0, 0, 0] for each in (1, 2, 5, 7, 8)])
    assert asked_at(study, 0.0, score, 0.0) == [False, stopped, False]


def test_fewer_than_three_at_a_rung_stop_nobody():
    assert asked_at(study_with(HalvingPruner(2, 5, 0), [[1.0] * 5]), 0.0, 0.0) == [False, False]
    assert asked_at(study_with(HalvingPruner(2, 5, 0), [[1.0] * 5] * 2), 0.0, 0.0) == [False, True]


def test_nobody_is_stopped_before_enough_trials_have_ended():
    assert asked_at(study_with(HalvingPruner(2, 5, 4), [[1.0] * 5] * 3), 0.0, 0.0) == [False, False]
    assert asked_at(study_with(HalvingPruner(2, 5, 4), [[1.0] * 5] * 4), 0.0, 0.0) == [False, True]


def test_trials_of_another_bracket_are_no_rivals():
    pruner = HalvingPruner(2, 20, 0)
    study = study_with(pruner, [[1.0] * 20] * 40)
    stopped = {}
    for _ in range(20):
        trial = study.ask()
        for epoch in (1, 2, 3, 4, 5, 6):
            trial.report(0.0, epoch)
            if trial.should_prune():
                stopped.setdefault(pruner.bracket("s", trial.number), set()).add(epoch)
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    assert stopped == {0: {2, 6}, 1: {6}}


def test_the_sampler_sees_the_trials_of_all_brackets():
    seen = []

    class Watching(optuna.samplers.RandomSampler):
        def infer_relative_search_space(self, study, trial):
            seen.append(len(study.get_trials()))
            return {}

    study = study_with(HalvingPruner(2, 20, 0), [[1.0] * 20] * 5)
    study.sampler = Watching(seed=0)
    study.ask().suggest_float("x", 0, 1)
    assert seen[-1] == 6
