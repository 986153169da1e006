"""The Pareto view of Sharpe ratio against cost."""

from __future__ import annotations

from pathlib import Path

import optuna

from hpo.report.cost_chart import cost_chart, pareto_front
from hpo.report.records import read_study
from hpo.study import attributes


def study_of(*trials):
    study = optuna.create_study(study_name="s", direction="maximize")
    for state, value, seconds, gpus in trials:
        trial = study.ask()
        trial.set_user_attr(attributes.SECONDS, seconds)
        attributes.write_cost(trial, gpus)
        trial.report(value, 1)
        study.tell(trial, value if state == "COMPLETE" else None, state=optuna.trial.TrialState[state])
    return read_study(study, Path("nowhere"))


def test_the_front_holds_what_no_cheaper_trial_equals():
    points = [(3.0, 0.5, 0), (1.0, 0.2, 1), (2.0, 0.2, 2), (2.5, 0.4, 3), (1.0, 0.1, 4), (2.5, 0.4, 5)]
    assert pareto_front(points) == [(1.0, 0.2, 1), (2.5, 0.4, 3), (3.0, 0.5, 0)]


def test_cost_is_gpu_seconds_where_gpus_were_used_and_stopped_trials_are_summed():
    chart = cost_chart(
        study_of(("COMPLETE", 0.5, 10.0, 0.5), ("COMPLETE", 0.7, 20.0, 0.5), ("PRUNED", 0.1, 4.0, 0.5))
    )
    assert list(chart.figure.data[0].x) == [5.0, 10.0]
    assert list(chart.figure.data[1].customdata) == [0, 1]
    assert chart.figure.layout.xaxis.title.text == "GPU-seconds"
    assert "cost 17 GPU-seconds of training, 2 of them" in chart.note


def test_without_a_gpu_it_is_seconds_and_one_trial_is_no_chart():
    two = (("COMPLETE", 0.5, 10.0, 0), ("COMPLETE", 0.4, 20.0, 0))
    chart = cost_chart(study_of(*two))
    assert chart.figure.layout.xaxis.title.text == "seconds of training"
    assert list(chart.figure.data[1].customdata) == [0]
    assert cost_chart(study_of(two[0])) is None
