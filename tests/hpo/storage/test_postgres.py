"""PostgreSQL: URLs, drivers, passwords, and a server that goes away in the middle."""

from __future__ import annotations

import logging
import threading

import optuna
import pytest
from optuna.exceptions import StorageInternalError
from sqlalchemy.exc import OperationalError

from hpo.storage import patient_storage
from hpo.storage import postgres as module
from hpo.storage.patient_storage import PatientStorage
from hpo.storage.postgres import hidden_password, is_postgres, with_driver
from hpo.storage.storages import open_storage
from trainer.errors import ConfigError

# A pool that lost its server, or never reached it, leaves sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


def only(*installed):
    return lambda name: object() if name in installed else None


@pytest.mark.parametrize("form", ["postgresql://u@h/d", "postgres://u@h/d", "postgresql+pg8000://u@h/d"])
def test_a_url_without_a_driver_gets_the_installed_one(form):
    assert is_postgres(form)
    assert with_driver(form).render_as_string() == "postgresql+pg8000://u@h/d"


def test_another_installed_driver_is_taken_where_the_first_is_missing(monkeypatch):
    monkeypatch.setattr(module, "find_spec", only("psycopg"))
    assert with_driver("postgresql://u@h/d").drivername == "postgresql+psycopg"


@pytest.mark.parametrize("form", ["postgresql://u:secret@h/d", "postgresql+psycopg://u:secret@h/d"])
def test_without_a_driver_one_sentence_names_the_command_and_no_password(monkeypatch, form):
    monkeypatch.setattr(module, "find_spec", only())
    with pytest.raises(ConfigError, match=r"pip install 'foxtune\[postgres\]'") as refusal:
        open_storage(form)
    assert "secret" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_password_of_the_environment_is_used_and_one_in_the_url_comes_first(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "env")
    monkeypatch.setenv("PGUSER", "someone")
    assert (with_driver("postgresql://h/d").username, with_driver("postgresql://h/d").password) == (
        "someone",
        "env",
    )
    assert with_driver("postgresql://u:own@h/d").password == "own"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:pw@h:1/d", "postgresql://u:***@h:1/d"),
        ("postgresql://u@h/d?password=pw", "postgresql://u@h/d?password=%2A%2A%2A"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("journal:/x/y.log", "journal:/x/y.log"),
    ],
)
def test_a_shown_url_hides_its_password(url, shown):
    assert hidden_password(url) == shown


def test_a_server_that_is_not_there_is_refused_at_once_without_the_password():
    with pytest.raises(ConfigError, match=r"^storage: cannot open .*\*\*\*@127\.0\.0\.1:1/d") as refusal:
        open_storage("postgresql://u:secret@127.0.0.1:1/d")
    assert "secret" not in str(refusal.value)


def test_a_study_survives_a_restart_of_the_server_in_mid_search_and_says_so(restartable, postgres, caplog):
    study = optuna.create_study(storage=open_storage(postgres), study_name="s")
    trial = study.ask()
    trial.report(0.5, 1)
    restartable.stop()
    starter = threading.Timer(1.0, restartable.start)
    starter.start()
    with caplog.at_level(logging.WARNING, "foxtune"):
        trial.report(0.25, 2)
        study.tell(trial, 1.0)
    starter.join()
    (stored,) = optuna.load_study(storage=open_storage(postgres), study_name="s").get_trials()
    assert (stored.intermediate_values, stored.value) == ({1: 0.5, 2: 0.25}, 1.0)
    lines = [record.getMessage() for record in caplog.records]  # of the server and its dead connections
    assert len(lines) == 2
    assert "does not answer (" in lines[0]
    assert "invalid data" not in lines[0]
    assert lines[1] == "storage: the database answers again"


def test_a_commit_that_is_broken_off_is_told_by_what_broke_it(postgres, caplog, monkeypatch):
    storage = open_storage(postgres)
    broken = StorageInternalError("An exception is raised during the commit.")
    broken.__cause__ = OperationalError(
        "COMMIT", None, OSError("connection reset"), connection_invalidated=True
    )
    answers = iter([broken, None])

    def call():
        if (error := next(answers)) is not None:
            raise error

    monkeypatch.setattr(patient_storage, "PAUSE_SECONDS", 0.0)
    with caplog.at_level(logging.WARNING, "foxtune"):
        storage.outlast(call)
    assert "does not answer ((builtins.OSError) connection reset)" in caplog.text


def test_a_server_that_stays_away_ends_the_search_in_one_sentence_and_tidying_up_does_not_wait(
    restartable, postgres
):
    storage = open_storage(postgres)
    assert isinstance(storage, PatientStorage)
    storage._wait = 1.0
    restartable.stop()
    try:
        with pytest.raises(ConfigError, match=r"did not answer in time.*foxtune resume"):
            storage.get_all_studies()
        with pytest.raises(ConfigError, match="did not answer in time"):
            storage.get_all_studies()
    finally:
        restartable.start()
    assert storage.get_all_studies() == []


def test_a_wrong_request_is_not_repeated(postgres):
    storage = open_storage(postgres)
    with pytest.raises(KeyError):
        storage.get_trial(12345)
