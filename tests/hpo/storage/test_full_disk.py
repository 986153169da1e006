"""A full disk is nobody's bad configuration: the search ends with a sentence, and a resume goes on."""

from __future__ import annotations

import errno
import os

import optuna
import pytest
import sqlalchemy
import torch
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from real_ray import REAL_RAY

from hpo.commands.command import Command
from hpo.outcome import Ended
from hpo.storage.full_disk import full_disk
from hpo.tuner import resume, tune

pytestmark = REAL_RAY
PAGES = 36  # of the database, 4 KiB each: some trials fit


def no_space(path=None):
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def test_a_full_disk_is_known_by_its_number_and_names_the_file():
    line = full_disk(no_space("/runs/checkpoint.pt"))
    assert line == (
        "disk full: no space left on the disk for /runs/checkpoint.pt; free space, then `foxtune resume`"
    )
    assert "quota" in full_disk(OSError(errno.EDQUOT, "x"))


@pytest.mark.parametrize("error", [OSError(errno.EACCES, "x"), ValueError("disk"), KeyError(28)])
def test_other_errors_are_no_full_disk(error):
    assert full_disk(error) is None


def test_a_full_disk_is_known_behind_the_error_that_torch_makes_of_it():
    with pytest.raises((RuntimeError, OSError)) as raised, open("/dev/full", "wb", buffering=0) as file:
        torch.save({"x": torch.zeros(1000)}, file)
    assert full_disk(raised.value) is not None


@pytest.fixture
def keys(fakes):
    return {"epochs": 4, "trials": 12, "stopping": {"pruner": "none"}, "artifacts": False}


@pytest.fixture
def full_then_freed(cluster, fakes, make_search, space, keys):
    """Searches until the disk is full, checks what must hold then, frees it, and finishes the search."""
    import killed_search as check

    def run(free, training="FakeTraining", **more):
        search = make_search(**keys, **more)
        outcome = tune(search, space, market=fakes.FakeMarket(), training=f"fake_training:{training}")
        assert (outcome.ended, outcome.exit_code) == (Ended.BROKEN_OFF, 1)
        assert "disk full: " in outcome.message
        assert "foxtune resume" in outcome.message
        assert outcome.failed == 0
        free()
        before = check.require_nothing_running(search)
        assert 0 < len(before) < search.trials
        assert {trial.state for trial in before} <= {TrialState.COMPLETE, TrialState.WAITING}
        again = resume(search, market=fakes.FakeMarket(), training="fake_training:FakeTraining")
        assert (again.ended, again.complete) == (Ended.FINISHED, search.trials)
        after = check.require_finished(search, 1, fakes.FakeMarket())
        for old, new in zip(before, after, strict=False):  # a trial may have been cut off while being asked
            assert old.params.items() <= new.params.items()
        return search, outcome

    return run


def test_a_full_disk_in_a_trial_ends_the_search_and_the_trial_goes_on_from_its_last_checkpoint(
    full_then_freed, tmp_path
):
    import killed_search as check

    (tmp_path / "runs").mkdir()
    full = tmp_path / "runs" / "full"
    full.touch()
    search, outcome = full_then_freed(full.unlink, "FullDisk")
    assert "checkpoint.pt" in outcome.message
    assert "node " in outcome.message
    assert check.epochs_run(search)[1] == [1, 2, 3, 3, 4]


def test_a_full_disk_under_sqlite_loses_nothing_that_was_stored(full_then_freed):
    def limit(connection, record):
        connection.execute(f"PRAGMA max_page_count = {PAGES}")

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", limit)
    try:
        full_then_freed(lambda: sqlalchemy.event.remove(sqlalchemy.Engine, "connect", limit))
    finally:
        if sqlalchemy.event.contains(sqlalchemy.Engine, "connect", limit):
            sqlalchemy.event.remove(sqlalchemy.Engine, "connect", limit)


def test_a_full_disk_under_a_journal_leaves_half_a_record_that_is_cut(full_then_freed, monkeypatch, tmp_path):
    journal = tmp_path / "study.log"
    whole = JournalFileBackend.append_logs

    def append(self, logs):
        if journal.stat().st_size > 60_000:
            with journal.open("a") as file:
                file.write('{"op_code": 9, "tri')
            raise no_space(str(journal))
        whole(self, logs)

    with monkeypatch.context() as patched:
        patched.setattr(JournalFileBackend, "append_logs", append)
        full_then_freed(patched.undo, storage=f"journal:{journal}")
    assert (tmp_path / "study.log.torn").exists()


def test_a_command_that_meets_a_full_disk_says_one_sentence(monkeypatch, capsys):
    import hpo.__main__
    import hpo.command_line

    def run(arguments, context):
        raise optuna.exceptions.StorageInternalError("failed") from no_space("/runs/study.log")

    command = Command("fill", "meets a full disk", lambda parser: None, run)
    monkeypatch.setattr(hpo.command_line, "COMMANDS", (command,))
    assert hpo.__main__.main(["fill"]) == 2
    assert capsys.readouterr().err == (
        "foxtune: error: disk full: no space left on the disk for /runs/study.log; "
        "free space, then `foxtune resume`\n"
    )
