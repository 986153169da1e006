"""Which trials of a study have their files elsewhere, and what the user is told."""

from __future__ import annotations

import socket

import optuna
import pytest
from optuna.trial import TrialState, create_trial

from hpo.study.run_directory import RunDirectory
from hpo.study.trial_files import files_elsewhere

HERE = socket.gethostname()


@pytest.fixture
def directory(tmp_path):
    return RunDirectory(tmp_path / "runs" / "s")


@pytest.fixture
def study(directory):
    """A study that was made here; trials are added by ``add``."""
    made = optuna.create_study(study_name="s")
    made.set_user_attr("host", HERE)
    made.set_user_attr("run_directory", str(directory.path))
    return made


def add(study, *places, state=TrialState.COMPLETE, **attributes):
    for host, folder in places:
        files = {"files": {"host": host, "folder": str(folder)}, **attributes}
        value = 0.5 if state == TrialState.COMPLETE else None
        study.add_trial(create_trial(state=state, value=value, user_attrs=files))


def write(directory, number):
    directory.trial(number).mkdir(parents=True)
    (directory.trial(number) / "evaluation.parquet").write_text("bars")


def test_nothing_is_said_of_files_that_are_here(study, directory):
    add(study, (HERE, directory.path), ("node2", "/b/runs/s"))
    write(directory, 0)
    write(directory, 1)  # copied from node2
    assert files_elsewhere(study, directory) is None


def test_host_and_folder_of_what_is_missing_are_named_with_the_way_out(study, directory):
    node = ("node2", "/b/runs/s")
    add(study, (HERE, directory.path), node, ("node3", "/c/s"), node)
    assert files_elsewhere(study, directory) == (
        f"left out are files that are not in {directory.path}: those of trials 1, 3 lie on node2 in "
        "/b/runs/s and of trial 2 lie on node3 in /c/s; copy the folders trials and artifacts from there "
        "into it, or run the command there"
    )


def test_a_second_folder_of_this_machine_is_named_while_it_has_the_trial(study, directory, tmp_path):
    other = RunDirectory(tmp_path / "two" / "s")
    add(study, (HERE, other.path))
    assert files_elsewhere(study, directory) is None
    write(other, 0)
    assert f"of trial 0 lie on {HERE} in {other.path}; copy" in files_elsewhere(study, directory)


def test_trials_without_bars_of_their_own_are_not_missed(study, directory):
    add(study, ("node2", "/b"), forked_from="old:0")
    add(study, ("node2", "/b"), state=TrialState.FAIL)
    add(study, ("node2", "/b"), state=TrialState.PRUNED)
    assert files_elsewhere(study, directory) is None


def test_where_the_study_lay_counts_for_trials_that_do_not_say(study, directory):
    study.set_user_attr("host", "node9")
    study.add_trial(create_trial(state=TrialState.COMPLETE, value=0.5))
    assert f"of trial 0 lie on node9 in {directory.path};" in files_elsewhere(study, directory)


def test_of_many_trials_the_first_eight_are_named(study, directory):
    add(study, *[("node2", "/b")] * 11)
    assert "trials 0, 1, 2, 3, 4, 5, 6, 7 and 3 more lie on node2" in files_elsewhere(study, directory)
