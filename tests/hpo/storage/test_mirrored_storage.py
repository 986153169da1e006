"""The mirror answers what the storage would, and leaves in it what Optuna itself would have written."""

from __future__ import annotations

import math
import sqlite3

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.storages import RDBStorage
from optuna.trial import TrialState, create_trial

from hpo.storage.mirrored_storage import MirroredStorage, has_one_driver, mirrored, together
from hpo.storage.storages import open_storage


@pytest.fixture(params=["sqlite:///{}/a.db", "journal:{}/a.log"])
def url(request, tmp_path):
    return request.param.format(tmp_path)


def new_study(url):
    storage = open_storage(url)
    study = optuna.create_study(storage=storage, study_name="s", direction="maximize")
    return mirrored(study, storage)


def stored(url):
    """The trials as another process finds them."""
    return optuna.load_study(storage=open_storage(url), study_name="s").get_trials()


def run(study):
    """Trials of every end, with attributes of every kind and numbers that are not finite."""
    for number, end in enumerate((TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)):
        trial = study.ask()
        trial.suggest_float("x", 1.0, 30.0, log=True)
        trial.suggest_categorical("kind", ("final", None, 3, True))
        trial.suggest_int("n", 2, 8, step=2)
        trial.set_user_attr("config", {"a": (1, 2.5, None), "b": "ü'\""})
        for step, value in enumerate((0.25 + number, math.inf, -math.inf, 1e-300), 1):
            trial.set_user_attr("score", {"step": step})
            trial.set_user_attr("seconds", step * 0.1)
            trial.report(value, step)
        trial.set_constraint("c", -1.0)
        trial.set_user_attr("reason", ["end", number])
        study.tell(trial, 1.5 if end == TrialState.COMPLETE else None, state=end)


def comparable(trials):
    return [(t.number, t._trial_id, t.state, t.values, t.params, t.distributions, t.user_attrs,
             t.system_attrs, t.intermediate_values, t.datetime_start, t.datetime_complete)
            for t in trials]  # fmt: skip


def test_memory_and_storage_hold_the_same(url):
    study, _ = new_study(url)
    run(study)
    assert comparable(study.get_trials()) == comparable(stored(url))
    assert comparable(study.get_trials(states=(TrialState.FAIL,))) == comparable(stored(url)[2:])
    last = stored(url)[0]
    assert last.user_attrs["config"] == {"a": [1, 2.5, None], "b": "ü'\""}
    assert (last.user_attrs["score"], last.user_attrs["reason"]) == ({"step": 4}, ["end", 0])
    assert last.intermediate_values == {1: 0.25, 2: math.inf, 3: -math.inf, 4: 1e-300}


def test_the_storage_holds_what_optuna_alone_would_have_written(url, tmp_path):
    study, _ = new_study(url)
    study.sampler = optuna.samplers.RandomSampler(seed=1)
    run(study)
    alone = optuna.create_study(storage=f"sqlite:///{tmp_path}/alone.db", study_name="s")
    alone.sampler = optuna.samplers.RandomSampler(seed=1)
    run(alone)
    ours, theirs = stored(url), alone.get_trials()
    for name in ("params", "distributions", "user_attrs", "system_attrs", "intermediate_values", "values"):
        assert [getattr(t, name) for t in ours] == [getattr(t, name) for t in theirs], name


def test_attributes_of_an_epoch_are_written_together_with_its_report(url):
    study, _ = new_study(url)
    trial = study.ask()
    trial.set_user_attr("config", 1)
    assert stored(url)[0].user_attrs == {"config": 1}
    trial.report(0.5, 1)
    trial.set_user_attr("score", 2)
    assert study.get_trials(deepcopy=False)[0].user_attrs == {"config": 1, "score": 2}
    assert stored(url)[0].user_attrs == {"config": 1}
    trial.report(0.6, 2)
    assert stored(url)[0].user_attrs == {"config": 1, "score": 2}
    assert stored(url)[0].intermediate_values == {1: 0.5, 2: 0.6}


def test_an_epoch_that_cannot_be_stored_whole_is_not_stored_at_all(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    study, _ = new_study(url)
    trial = study.ask()
    trial.report(0.5, 1)
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON trial_intermediate_values "
            "BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
    trial.set_user_attr("score", 2)
    with pytest.raises(Exception, match="disk is full"):
        trial.report(0.6, 2)
    assert stored(url)[0].user_attrs == {}
    assert stored(url)[0].intermediate_values == {1: 0.5}


def test_a_trial_that_is_put_back_is_asked_for_again_with_all_that_it_had(url):
    study, storage = new_study(url)
    trial = study.ask()
    x = trial.suggest_float("x", 0.0, 1.0)
    trial.report(0.5, 1)
    trial.set_user_attr("score", 2)
    storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)
    assert stored(url)[0].state == TrialState.WAITING
    assert stored(url)[0].user_attrs == {"score": 2}
    again = study.ask()
    assert (again.number, again.user_attrs) == (0, {"score": 2})
    assert again.suggest_float("x", 0.0, 1.0) == x
    assert comparable(study.get_trials()) == comparable(stored(url))


def test_what_was_handed_out_stays_as_it_was(url):
    study, storage = new_study(url)
    trial = study.ask()
    before = study.get_trials(deepcopy=False)[0]
    copy = storage.get_trial(trial._trial_id)
    copy.user_attrs["foreign"] = 1
    trial.report(0.5, 1)
    trial.set_user_attr("score", 2)
    assert (before.intermediate_values, before.user_attrs) == ({}, {})
    assert study.get_trials(deepcopy=False)[0].user_attrs == {"score": 2}


def test_a_finished_trial_is_not_changed(url):
    study, storage = new_study(url)
    trial = study.ask()
    study.tell(trial, 1.0)
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        storage.set_trial_user_attr(trial._trial_id, "late", 1)
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        storage.set_trial_intermediate_value(trial._trial_id, 1, 1.0)
    assert comparable(study.get_trials()) == comparable(stored(url))


def test_added_trials_and_a_study_that_existed_are_mirrored_too(url):
    first, _ = new_study(url)
    run(first)
    storage = open_storage(url)
    again, mirror = mirrored(optuna.load_study(storage=storage, study_name="s"), storage)
    kinds = CategoricalDistribution(("final", None, 3, True))
    distributions = {"x": FloatDistribution(1.0, 30.0, log=True), "kind": kinds}
    again.add_trial(create_trial(value=2.0, params={"x": 3.0, "kind": 3}, distributions=distributions))
    again.enqueue_trial({"x": 5.0})
    trial = again.ask()
    assert trial.number == 4
    assert trial.suggest_float("x", 1.0, 30.0, log=True) == 5.0
    assert again.best_trial.value == 2.0
    assert comparable(again.get_trials()) == comparable(stored(url))
    assert isinstance(mirror, MirroredStorage)


def test_a_report_reads_nothing_and_takes_one_transaction(tmp_path, monkeypatch):
    study, storage = new_study(f"sqlite:///{tmp_path}/a.db")
    trials = [study.ask() for _ in range(3)]
    for trial in trials:
        trial.report(0.0, 1)
    engine = storage._storage.engine
    begun, begin = [], engine.begin
    monkeypatch.setattr(engine, "begin", lambda: begun.append(1) or begin())
    monkeypatch.setattr(RDBStorage, "get_all_trials", None)
    monkeypatch.setattr(RDBStorage, "set_trial_user_attr", None)
    for step in range(2, 6):
        for name in ("score", "learning", "seconds"):
            trials[0].set_user_attr(name, step)
        trials[0].report(1.0, step)
        assert len(study.get_trials(deepcopy=False)) == 3
    assert len(begun) == 4


def test_what_a_trial_gets_together_is_written_in_one_transaction(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/a.db"
    study, storage = new_study(url)
    engine = storage._storage.engine
    begun, begin = [], engine.begin
    monkeypatch.setattr(engine, "begin", lambda: begun.append(1) or begin())
    for name in ("set_trial_param", "set_trial_user_attr", "set_trial_system_attr"):
        monkeypatch.setattr(RDBStorage, name, None)
    with together(storage):
        trial = study.ask()
        trial.suggest_float("x", 1.0, 30.0, log=True)
        trial.suggest_categorical("kind", ("final", None, 3, True))
        trial.set_user_attr("config", 1)
        trial.set_user_attr("config", 2)
        trial.set_constraint("c", -1.0)
        assert begun == []
    assert len(begun) == 1
    (written,) = stored(url)
    assert written.user_attrs == {"config": 2}
    assert set(written.params) == {"x", "kind"}
    assert comparable(study.get_trials()) == comparable([written])


def test_what_a_trial_got_before_an_error_is_written_too(url):
    study, storage = new_study(url)

    def ask_and_fail():
        with together(storage):
            study.ask().suggest_float("x", 0.0, 1.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask_and_fail()
    assert set(stored(url)[0].params) == {"x"}


def test_a_parameter_of_another_kind_than_an_earlier_trials_is_refused(url):
    study, _ = new_study(url)
    study.ask().suggest_float("x", 0.0, 1.0)
    with pytest.raises(ValueError, match="distribution kind"):
        study.ask().suggest_categorical("x", ("a", "b"))
    assert stored(url)[1].params == {}


def test_a_server_may_have_several_drivers_and_is_not_mirrored(tmp_path):
    study = optuna.create_study()
    assert not has_one_driver(study._storage)
    assert mirrored(study, study._storage) == (study, study._storage)
