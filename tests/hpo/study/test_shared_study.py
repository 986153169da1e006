"""Several drivers on one study in PostgreSQL: one budget, no trial twice, none left RUNNING."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
import sqlalchemy
from fake_training import Silent
from optuna.trial import TrialState
from shared_driver import DATA

from hpo.effective_config import Effective, to_toml
from hpo.ledger import StudyLedger
from hpo.outcome import Ended
from hpo.searcher import StudySearcher
from hpo.storage.storages import open_storage
from hpo.study import shared_study as module
from hpo.study.attributes import DRIVER
from hpo.study.definition import StudyDefinition
from hpo.study.run_directory import RunDirectory
from hpo.study.shared_study import SharedStudy, shared_study
from hpo.study.studies import create, open_existing, running, store_search, stored_definition
from hpo.study.trial_files import files_elsewhere
from hpo.tuner import resume, saved_search, tune

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def shared(postgres, make_search, space):
    search = make_search(storage=postgres)
    storage = open_storage(postgres)
    study = create(storage, "s", StudyDefinition.of(search, space, "d"), RunDirectory.of(search))
    return SharedStudy(study, storage), study, storage


def driver(url, runs, trials, *kill_at):
    script = Path(__file__).parents[1] / "shared_driver.py"
    return subprocess.Popen([sys.executable, str(script), url, str(runs), str(trials), *map(str, kill_at)])


@pytest.mark.parametrize("kill_at", [(), (4,)])
def test_two_processes_end_with_exactly_the_trials_asked_for_each_once(shared, postgres, tmp_path, kill_at):
    _, study, _ = shared
    first = driver(postgres, tmp_path / "one", 16)
    second = driver(postgres, tmp_path / "two", 16, *kill_at)
    assert first.wait(90) == 0
    assert second.wait(90) == (-9 if kill_at else 0)
    trials = study.get_trials()
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 16
    assert len({str(trial.params) for trial in trials}) == 16
    drivers = {trial.user_attrs[DRIVER] for trial in trials}
    assert len(drivers) == 2
    assert running(study) == ()


def test_a_live_drivers_trial_is_left_alone_and_a_dead_ones_waits_again(shared):
    mine, study, storage = shared
    other = SharedStudy(study, storage)
    with other.signed_in():
        trial = other.claim(lambda: False, study.ask)
        assert mine.free_orphans() == ()
        assert mine.others() == (other.driver,)
    assert mine.free_orphans() == (trial.number,)
    assert study.get_trials()[0].state == TrialState.WAITING
    assert not other.owns(trial.number)
    assert other.while_owned(trial.number, lambda: study.tell(trial, 1.0)) is None


def test_a_driver_elsewhere_is_dead_when_it_was_not_seen_for_the_lease(shared, monkeypatch):
    mine, study, storage = shared
    other = SharedStudy(study, storage)
    other.claim(lambda: False, study.ask)
    monkeypatch.setattr(module, "own_place", lambda: "another machine")
    other._beat()
    monkeypatch.undo()
    assert mine.free_orphans() == ()
    with storage.engine.begin() as connection:
        connection.execute(
            sqlalchemy.text("UPDATE foxtune_drivers SET seen = seen - interval '1 day', pid = 1")
        )
    monkeypatch.setattr(module, "LEASE_SECONDS", 0.0)  # the server itself has just been started
    assert mine.free_orphans() == (0,)


def test_a_trial_broken_off_while_being_asked_for_is_free_at_once(shared):
    mine, study, _ = shared
    study.ask()
    assert mine.claim(lambda: False, study.ask).number == 0
    assert study.get_trials()[0].user_attrs[DRIVER] == mine.driver


def test_a_full_study_gives_no_trial(shared):
    mine, study, _ = shared
    assert mine.claim(lambda: True, study.ask) is None
    assert study.get_trials() == []


def test_reading_a_study_frees_only_what_dead_drivers_left(shared, postgres):
    mine, study, _ = shared
    with mine.signed_in():
        mine.claim(lambda: False, study.ask)
        opened = open_existing(postgres, "s")
        assert opened.reconciliation.requeued == ()
        assert f"pid {os.getpid()} on" in opened.reconciliation.message
    assert open_existing(postgres, "s").reconciliation.requeued == (0,)


def test_a_file_allows_one_driver_only(make_search, space):
    search = make_search()
    storage = open_storage(RunDirectory.of(search).storage_url(search))
    study = create(storage, "s", StudyDefinition.of(search, space, "d"), RunDirectory.of(search))
    assert shared_study(study, storage) is None


def test_another_machine_reads_from_the_study_how_it_is_run_and_no_address_is_stored(
    shared, postgres, make_search, tmp_path
):
    _, study, _ = shared
    store_search(study, make_search(storage=postgres, trials=17))
    found = saved_search(str(tmp_path / "elsewhere"), "s", postgres)
    assert (found.trials, found.runs, found.storage) == (17, str(tmp_path / "elsewhere"), None)
    assert "postgresql" not in str(study.user_attrs)


def test_a_password_is_in_no_message_and_only_its_owner_reads_the_file(make_search, tmp_path):
    search = make_search(storage="postgresql://u:secret@h/d")
    directory = RunDirectory.of(search)
    directory.write_search(search)
    assert directory.search_file.stat().st_mode & 0o077 == 0
    assert directory.read_search().storage == "postgresql://u:secret@h/d"
    assert "secret" not in to_toml(Effective(search, {}))


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
def test_a_search_begun_in_one_folder_is_finished_from_another(
    cluster, fakes, make_search, space, postgres, tmp_path
):
    keys = {"epochs": 2, "storage": postgres, "stopping": {"pruner": "none"}}
    first = tune(
        make_search(trials=1, **keys), space, market=fakes.FakeMarket(), training="fake_training:FakeTraining"
    )
    elsewhere = str(tmp_path / "elsewhere")
    more = saved_search(elsewhere, "s", postgres).model_copy(update={"storage": postgres, "trials": 3})
    second = resume(more, market=fakes.FakeMarket(), training="fake_training:FakeTraining")
    assert (first.complete, second.complete, second.waiting) == (1, 3, 0)
    assert (tmp_path / "runs" / "s" / "trials" / "0000" / "weights.pt").exists()
    assert (tmp_path / "elsewhere" / "s" / "trials" / "0002" / "weights.pt").exists()
    study = optuna.load_study(study_name="s", storage=open_storage(postgres))
    assert [trial.user_attrs["files"]["folder"] for trial in study.get_trials()] == [
        str(tmp_path / "runs" / "s"), *[str(tmp_path / "elsewhere" / "s")] * 2,
    ]  # fmt: skip
    told = files_elsewhere(study, second.directory)
    assert f"of trial 0 lie on {socket.gethostname()} in {tmp_path}/runs/s; copy" in told


def test_two_drivers_that_ask_at_once_do_not_both_get_the_last_trial(shared, postgres):
    mine, study, _ = shared
    asking = threading.Event()

    def full():
        return len(running(study)) > 0

    def ask_slowly():
        asking.set()
        time.sleep(0.5)  # the other one asks meanwhile
        return study.ask()

    storage = open_storage(postgres)
    other_study = optuna.load_study(study_name="s", storage=storage)
    other = SharedStudy(other_study, storage)
    with mine.signed_in(), ThreadPoolExecutor(1) as pool:
        first = pool.submit(mine.claim, full, ask_slowly)
        asking.wait(5)
        second = other.claim(lambda: len(running(other_study)) > 0, other_study.ask)
        assert first.result().number == 0
    assert second is None


@pytest.fixture
def last_trial_elsewhere(shared, postgres, make_search, fakes):
    """A search of one trial, which another driver runs."""
    _, study, storage = shared
    definition = stored_definition(storage, "s")
    study.set_user_attr("definition", replace(definition, data_hash=fakes.FakeMarket().data_hash).to_json())
    other = SharedStudy(study, storage)
    with other.signed_in():
        other.claim(lambda: False, study.ask)
        yield make_search(trials=1, storage=postgres, time_budget=1.0, stopping={"pruner": "none"})


def test_who_waits_for_others_notices_the_end_of_the_search(last_trial_elsewhere, shared, space):
    _, study, storage = shared
    search, directory = last_trial_elsewhere, RunDirectory.of(last_trial_elsewhere)
    ledger = StudyLedger(
        study, storage, search, space, DATA, directory, Silent(), SharedStudy(study, storage)
    )
    stopping = iter([False, True])
    searcher = StudySearcher(ledger, search, directory, 1, lambda: next(stopping))
    assert searcher.suggest("a") is None
    assert searcher.suggest("a") == "FINISHED"


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
def test_a_driver_whose_share_is_done_ends_with_its_time_budget(cluster, fakes, last_trial_elsewhere):
    # Without the searcher's question Ray would keep it for ten minutes, longer than any test may take.
    outcome = resume(last_trial_elsewhere, market=fakes.FakeMarket(), training="fake_training:FakeTraining")
    assert (outcome.ended, outcome.exit_code, outcome.complete) == (Ended.TIME_BUDGET, 0, 0)
