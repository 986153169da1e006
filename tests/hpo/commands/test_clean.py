"""foxtune clean: what a study holds, what goes, and what must stay."""

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpo.commands import stored_trial
from hpo.study.run_directory import RunDirectory
from hpo.study.studies import Reconciliation, open_existing
from hpo.study.study_files import Kind, StudyFile, size_text


@pytest.fixture
def folder(study):
    """The study "s" with a waiting trial 3; every trial has every file, and Ray left something behind."""
    study.enqueue_trial({"gamma": 0.9})
    directory = RunDirectory(Path("runs/s").absolute())
    for number in range(4):
        place = directory.trial(number)
        place.mkdir(parents=True, exist_ok=True)
        for name in ("checkpoint.pt", "log.txt", "weights.pt", "evaluation.parquet"):
            (place / name).write_bytes(b"0" * 1500)
    (directory.trial(0) / "weights.pt.17.partial").write_bytes(b"0" * 10)
    directory.scratch.mkdir()
    (directory.scratch / "params.pkl").write_bytes(b"0" * 20)
    return directory.path


@pytest.fixture
def answer(monkeypatch):
    def typing(text):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    return typing


def left(folder, name):
    return [path.parent.name for path in sorted(folder.glob(f"trials/*/{name}"))]


def test_checkpoints_of_ended_trials_and_scratch_go_and_a_waiting_trial_keeps_its_own(run, folder):
    code, out, err = run("clean", "s", "--yes")
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line and line[0].isalpha()}
    assert rows["checkpoints"] == ["4", "6.0", "kB", "4.5", "kB"]
    assert rows["scratch"] == ["2", "30", "B", "30", "B"]
    assert rows["weights"][-1] == rows["evaluations"][-1] == rows["storage"][-1] == "-"
    assert "freed 4.5 kB" in out
    assert left(folder, "checkpoint.pt") == ["0003"]
    assert left(folder, "*.partial") == []
    assert [path for path in (folder / "ray").rglob("*") if path.is_file()] == []
    for name in ("log.txt", "weights.pt", "evaluation.parquet"):
        assert len(left(folder, name)) == 4
    assert (folder / "study.db").exists()
    assert "nothing to free" in run("clean", "s", "--yes")[1]


def test_logs_and_weights_go_when_asked_for_and_the_best_trial_keeps_its_weights(run, folder):
    code, _, _ = run("clean", "s", "--yes", "--logs", "--weights")
    assert code == 0
    assert left(folder, "log.txt") == ["0003"]
    assert left(folder, "weights.pt") == ["0000", "0003"]
    assert len(left(folder, "evaluation.parquet")) == 4


@pytest.mark.parametrize(
    ("typed", "gone"), [("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_nothing_goes_before_somebody_has_said_yes(run, folder, answer, typed, gone):
    answer(typed)
    code, out, _ = run("clean", "s")
    assert "free 4.5 kB? [y/N]" in out
    assert code == (0 if gone else 1)
    assert (left(folder, "checkpoint.pt") == ["0003"]) is gone


@pytest.mark.parametrize("typed", ["y\n", "other\n", ""])
def test_the_whole_study_goes_only_for_its_name_even_with_yes(run, folder, answer, typed):
    answer(typed)
    code, out, _ = run("clean", "s", "--all", "--yes")
    assert (code, "nothing was deleted" in out) == (1, True)
    assert (folder / "study.db").exists()
    assert len(left(folder, "checkpoint.pt")) == 4


def test_the_whole_study_goes_for_its_name(run, folder, answer):
    answer("s\n")
    code, out, _ = run("clean", "s", "--all")
    assert (code, "deleted study s" in out) == (0, True)
    assert "its 4 trials included" in out
    assert not folder.exists()


def test_a_study_whose_folder_is_a_link_to_another_disk_goes_with_the_link(run, folder, answer, tmp_path):
    disk = tmp_path / "disk"
    folder.rename(disk)
    folder.symlink_to(disk)
    answer("s\n")
    code, out, _ = run("clean", "s", "--all")
    assert (code, "deleted study s" in out) == (0, True)
    assert not disk.exists()
    assert not folder.is_symlink()


def test_a_study_that_is_being_run_is_left_alone(run, folder):
    with RunDirectory(folder).driving("s"):
        code, out, err = run("clean", "s", "--yes")
    assert (code, out) == (2, "")
    assert "is being run by pid" in err
    assert len(left(folder, "checkpoint.pt")) == 4


def test_a_study_that_another_machine_runs_is_left_alone(run, folder, monkeypatch):
    opened = open_existing(f"sqlite:///{folder}/study.db", "s")
    elsewhere = replace(opened, reconciliation=Reconciliation(live_driver="pid 7 on node2"))
    monkeypatch.setattr(stored_trial, "open_named", lambda arguments: elsewhere)
    code, _, err = run("clean", "s", "--yes")
    assert (code, "is being run by pid 7 on node2" in err) == (2, True)
    assert len(left(folder, "checkpoint.pt")) == 4


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000, "2.0 MB"), (3e15, "3000.0 TB")],
)
def test_sizes_are_written_for_people(size, text):
    assert size_text([StudyFile(Path("x"), Kind.LOGS, int(size), 0)]) == text
