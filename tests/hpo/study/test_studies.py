from __future__ import annotations

import subprocess
import sys

import optuna
import pytest
from optuna.trial import TrialState

from hpo.sampling.suggestions import suggest
from hpo.storage.storages import open_storage
from hpo.study.definition import StudyDefinition, differences, space_from_plain, space_to_plain
from hpo.study.run_directory import RunDirectory
from hpo.study.studies import create, finished, fork, open_existing, reconcile, running, stored_search
from hpo.tuner import resume
from trainer.config import Choice, Float, SearchSpace, When
from trainer.errors import ConfigError


def make(search, space, data_hash="d" * 64):
    directory = RunDirectory.of(search)
    storage = open_storage(directory.storage_url(search))
    study = create(storage, search.study, StudyDefinition.of(search, space, data_hash), directory)
    return study, storage, directory


def with_range(space, **change):
    parameters = [
        Float(
            each.name,
            **{"low": each.low, "high": each.high, "step": each.step, "log": each.log, **change},
        )
        if each.name == "iql_expectile_tau"
        else each
        for each in space.parameters
    ]
    return SearchSpace(space.name, tuple(parameters))


def test_an_existing_study_of_the_same_definition_names_resume_and_fork(make_search, space):
    make(make_search(), space)
    with pytest.raises(ConfigError, match=r"foxtune resume s`.*--study.*--fork"):
        make(make_search(), space)


@pytest.mark.parametrize(
    ("change", "row"),
    [
        ({"low": 0.6}, r"iql_expectile_tau +float \[0.5, 0.95\] +float \[0.6, 0.95\]"),
        ({"log": True}, r"iql_expectile_tau +float \[0.5, 0.95\] +float \[0.5, 0.95\] log"),
        ({"step": 0.05}, r"iql_expectile_tau +float \[0.5, 0.95\] +float \[0.5, 0.95\] step 0.05"),
    ],
)
def test_another_range_scale_or_grid_is_refused_with_a_table(make_search, space, change, row):
    make(make_search(), space)
    with pytest.raises(ConfigError, match=row) as refusal:
        make(make_search(), with_range(space, **change))
    assert "--fork" in str(refusal.value)


def test_another_list_of_choices_is_refused_with_a_table(make_search, space):
    make(make_search(), space)
    wider = Choice("her_strategy", ("final", "future", "episode"), when=When("her_ratio", above=0.0))
    changed = SearchSpace(space.name, (*space.parameters[:-1], wider))
    with pytest.raises(ConfigError, match=r'her_strategy +\{"final", "future"\} .*"episode"\}'):
        make(make_search(), changed)


@pytest.mark.parametrize("low", [0.4, 0.6])
def test_a_refused_change_leaves_the_storage_as_it_was(make_search, space, low):
    search = make_search()
    study, storage, directory = make(search, space)
    complete(study, space, 0.8, 0.0, 0.2)
    storage.remove_session()
    storage.engine.dispose()  # writes its log into the file
    before = (directory.path / "study.db").read_bytes()
    with pytest.raises(ConfigError, match="made with another definition"):
        resume(search, with_range(space, low=low))
    with pytest.raises(ConfigError, match="made with another definition"):
        make(search, with_range(space, low=low))
    assert (directory.path / "study.db").read_bytes() == before
    assert [trial.value for trial in study.get_trials()] == [0.2]


def test_other_data_and_another_fixed_key_are_refused_but_a_runtime_key_is_not(make_search, space):
    search = make_search()
    old = StudyDefinition.of(search, space, "a" * 64)
    runtime = {"threads": 4, "cuda_graph": False, "steps_per_replay": 64, "check_finite": True}
    faster = search.model_copy(update={"trainer": search.trainer.with_overrides(runtime)})
    costlier = search.model_copy(update={"trainer": search.trainer.with_overrides({"fee_bp": 3.0})})
    assert differences(old, StudyDefinition.of(faster, space, "a" * 64)) == ()
    (data,) = differences(old, StudyDefinition.of(search, space, "b" * 64))
    assert (data.parameter, data.old, data.new) == ("data hash", "a" * 12, "b" * 12)
    (fee,) = differences(old, StudyDefinition.of(costlier, space, "a" * 64))
    assert (fee.parameter, fee.old, fee.new) == ("environment.fee_bp", "1.0", "3.0")


def test_a_study_of_the_other_direction_is_refused(make_search, space):
    search = make_search()
    directory = RunDirectory.of(search)
    storage = open_storage(directory.storage_url(search))
    definition = StudyDefinition.of(search, space, "d" * 64)
    other = optuna.create_study(storage=storage, study_name="s", direction="minimize")
    other.set_user_attr("definition", definition.to_json())
    with pytest.raises(ConfigError, match=r"direction +minimize +maximize"):
        create(storage, "s", definition, directory)


def test_a_study_of_another_program_is_not_touched(make_search, space):
    search = make_search()
    directory = RunDirectory.of(search)
    storage = open_storage(directory.storage_url(search))
    optuna.create_study(storage=storage, study_name="s")
    with pytest.raises(ConfigError, match="not made by foxtune"):
        create(storage, "s", StudyDefinition.of(search, space, "d"), directory)


@pytest.mark.parametrize("text", ["", "[]", '{"direction": "maximize"}', '{"fixed": 1}'])
def test_a_definition_of_another_form_is_refused_in_one_sentence(text):
    with pytest.raises(ConfigError, match=r"study: its stored definition has another form .*--study NEW"):
        StudyDefinition.from_json(text)


def test_a_definition_with_a_kind_of_parameter_that_is_not_known_is_refused(make_search, space):
    text = StudyDefinition.of(make_search(), space, "d").to_json().replace('"kind": "', '"kind": "new ')
    with pytest.raises(ConfigError, match=r"another form .KeyError: 'new "):
        StudyDefinition.from_json(text)


def test_a_study_whose_driver_died_before_it_kept_the_configuration_asks_for_another_name(make_search, space):
    _, storage, _ = make(make_search(), space)
    with pytest.raises(ConfigError, match=r"driver of study 's' died while making it; use --study NEW"):
        stored_search(storage, "s", "runs")


def test_a_space_survives_a_turn_through_json(space, make_search):
    definition = StudyDefinition.of(make_search(), space, "d")
    assert StudyDefinition.from_json(definition.to_json()) == definition
    assert space_from_plain(space_to_plain(space)) == space


def test_reconciling_keeps_number_parameters_and_intermediate_values(make_search, space):
    study, storage, _ = make(make_search(), space)
    trial = study.ask()
    params = suggest(trial, space)
    trial.report(0.25, 1)
    assert reconcile(study, storage).requeued == (0,)
    assert running(study) == ()
    again = study.ask()
    assert again.number == 0
    assert suggest(again, space) == params
    again.report(0.5, 2)
    study.tell(again, 0.5)
    (frozen,) = study.get_trials()
    assert frozen.intermediate_values == {1: 0.25, 2: 0.5}
    assert frozen.state == TrialState.COMPLETE


def test_a_trial_killed_before_its_parameters_were_stored_gets_the_missing_ones(make_search, space):
    study, storage, _ = make(make_search(), space)
    trial = study.ask()
    tau = trial.suggest_float("iql_expectile_tau", 0.5, 0.95)
    reconcile(study, storage)
    chosen = suggest(study.ask(), space)
    assert chosen["iql_expectile_tau"] == tau
    assert "iql_advantage_temperature" in chosen


def test_requeueing_works_in_a_journal_file_too(make_search, space, tmp_path):
    study, storage, _ = make(make_search(storage=f"journal:{tmp_path / 'study.log'}"), space)
    params = suggest(study.ask(), space)
    reconcile(study, storage)
    assert suggest(study.ask(), space) == params


def test_opening_a_study_mends_it_and_says_so(make_search, space):
    search = make_search()
    study, _, directory = make(search, space)
    suggest(study.ask(), space)
    opened = open_existing(directory.storage_url(search), "s")
    assert "the driver had died with trial 0 RUNNING; " in opened.reconciliation.message
    assert "foxtune resume" in opened.reconciliation.message
    assert open_existing(directory.storage_url(search), "s").reconciliation.message is None


def test_a_live_drivers_trials_are_left_alone_and_its_pid_is_named(make_search, space):
    search = make_search()
    study, _, directory = make(search, space)
    study.ask()
    code = (
        "import sys, time; from pathlib import Path; from hpo.study.run_directory import RunDirectory\n"
        "with RunDirectory(Path(sys.argv[1])).driving('s'): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(directory.path)], stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        opened = open_existing(directory.storage_url(search), "s")
        with pytest.raises(ConfigError, match=f"run by pid {holder.pid} on"), directory.driving("s"):
            pass
        holder.kill()
    assert f"pid {holder.pid}" in opened.reconciliation.message
    assert running(study) == (0,)
    assert open_existing(directory.storage_url(search), "s").reconciliation.requeued == (0,)


def test_a_missing_study_names_those_that_there_are(make_search, space):
    search = make_search()
    _, _, directory = make(search, space)
    with pytest.raises(ConfigError, match=r"no study 'other'.*there are: s"):
        open_existing(directory.storage_url(search), "other")
    with pytest.raises(ConfigError, match="does not exist"):
        open_existing(f"sqlite:///{directory.path / 'nothing.db'}", "s")
    assert not (directory.path / "nothing.db").exists()
    (directory.path / "empty.db").touch()
    with pytest.raises(ConfigError, match=r"empty\.db is empty; see `foxtune tune`"):
        open_existing(f"sqlite:///{directory.path / 'empty.db'}", "s")
    assert (directory.path / "empty.db").stat().st_size == 0
    with pytest.raises(ConfigError, match=r"no study 's': .*/folder/nothing\.log does not exist; see"):
        open_existing(f"journal:{directory.path / 'folder' / 'nothing.log'}", "s")
    assert not (directory.path / "folder").exists()


def complete(study, space, tau, ratio, value):
    fixed = {"iql_expectile_tau": tau, "iql_advantage_temperature": 3.0, "her_ratio": ratio}
    if ratio > 0:
        fixed["her_strategy"] = "final"
    study.enqueue_trial(fixed)
    trial = study.ask()
    suggest(trial, space)
    trial.report(value, 1)
    study.tell(trial, value)


def test_a_fork_copies_the_trials_that_lie_in_the_new_space(make_search, space):
    search = make_search()
    study, _, directory = make(search, space)
    complete(study, space, 0.55, 0.3, 0.1)
    complete(study, space, 0.8, 0.0, 0.2)
    narrower = with_range(space, low=0.7)
    new = make_search(study="t")
    target, _, _ = make(new, narrower)
    definition = StudyDefinition.of(new, narrower, "d" * 64)
    done = fork(open_existing(directory.storage_url(search), "s"), target, definition)
    assert (done.copied, done.left_out) == (1, 1)
    (copy,) = target.get_trials()
    assert (copy.value, copy.params["iql_expectile_tau"]) == (0.2, 0.8)
    assert copy.intermediate_values == {1: 0.2}
    assert copy.user_attrs["forked_from"] == "s:1"
    assert finished(target) == 0


def test_a_fork_to_other_data_copies_nothing_and_says_why(make_search, space):
    search = make_search()
    study, _, directory = make(search, space)
    complete(study, space, 0.8, 0.0, 0.2)
    new = make_search(study="t")
    target, _, _ = make(new, space, "e" * 64)
    opened = open_existing(directory.storage_url(search), "s")
    done = fork(opened, target, StudyDefinition.of(new, space, "e" * 64))
    assert done.copied == 0
    assert "data hash" in done.message
