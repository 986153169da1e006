"""What a database refuses in the middle of a command is one sentence with the fix."""

from __future__ import annotations

import sqlite3

import optuna
import pytest
from optuna.storages import RDBStorage

from hpo.commands.command import Command
from hpo.storage.storage_trouble import storage_trouble
from hpo.storage.storages import open_storage


@pytest.fixture
def file(tmp_path):
    """A database with a study of 200 trials."""
    path = tmp_path / "study.db"
    storage = open_storage(f"sqlite:///{path}")
    study = optuna.create_study(storage=storage, study_name="s")
    study.add_trials([optuna.trial.create_trial(value=0.0, user_attrs={"text": "x" * 999})] * 200)
    storage.engine.dispose()
    return path


def refused(file, **options):
    """The error of a study that is read and written."""
    storage = RDBStorage(f"sqlite:///{file}", engine_kwargs={"connect_args": {"timeout": 0, **options}})
    try:
        with pytest.raises(Exception, match=r".") as raised:
            optuna.load_study(study_name="s", storage=storage).enqueue_trial({"x": 1})
    finally:
        storage.remove_session()
        storage.engine.dispose()
    return raised.value


def test_a_damaged_database_is_named_with_what_saves_it(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2 :] = b"Z" * (len(content) - len(content) // 2)
    file.write_bytes(content)
    line = storage_trouble(refused(file))
    assert line.startswith("storage: the database cannot go on (")
    assert "malformed" in line
    assert "put a copy in its place" in line
    assert "\n" not in line


def test_a_database_that_another_program_locks_is_told_apart(file):
    other = sqlite3.connect(file)
    other.execute("BEGIN EXCLUSIVE")
    assert storage_trouble(refused(file)) == (
        "storage: the database cannot go on (database is locked); another program holds it: end that one, "
        "then try again"
    )
    other.close()


@pytest.mark.parametrize("error", [ValueError("database is locked"), OSError(13, "denied")])
def test_other_errors_are_no_trouble_of_a_storage(error):
    assert storage_trouble(error) is None


def test_a_command_that_meets_a_damaged_database_says_one_sentence(file, monkeypatch, capsys):
    import hpo.__main__
    import hpo.command_line

    def run(arguments, context):
        with sqlite3.connect(file) as other:
            other.execute("BEGIN EXCLUSIVE")
            raise refused(file)

    command = Command("read", "meets a locked database", lambda parser: None, run)
    monkeypatch.setattr(hpo.command_line, "COMMANDS", (command,))
    assert hpo.__main__.main(["read"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("foxtune: error: storage: the database cannot go on (database is locked); ")
    assert told.count("\n") == 1
