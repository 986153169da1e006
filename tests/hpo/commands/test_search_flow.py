"""What tune and resume print in the end."""

from datetime import datetime, timedelta

import optuna
import pytest

from hpo.commands.search_flow import LONGEST_TABLE, best_lines, end_lines, next_commands, trial_table
from hpo.outcome import Best, Ended, SearchOutcome
from hpo.study.attributes import DEGENERATE
from hpo.study.run_directory import RunDirectory


def study_of(*values):
    study = optuna.create_study(direction="maximize")
    for value in values:
        trial = study.ask()
        trial.suggest_float("gamma", 0.5, 0.5)
        study.tell(trial, value)
    return study


def outcome(directory, best=None, ended=Ended.FINISHED, copied=0):
    return SearchOutcome(
        study="s",
        storage="sqlite:///s.db",
        directory=RunDirectory(directory),
        ended=ended,
        complete=3,
        pruned=1,
        failed=0,
        waiting=0,
        copied=copied,
        best=best,
        reason=None,
        exit_code=0,
        seconds=1.0,
    )


def timed(number, start, first_epoch, stop):
    """A trial of one device; seconds after noon."""
    noon = datetime(2024, 5, 1, 12)
    at = (noon + timedelta(seconds=first_epoch)).timestamp()
    machine = {"host": "node", "gpu": "GPU-a", "versions": {}}
    attributes = {"machine": machine, "warm": True, "setup_seconds": 0.1, "first_epoch_at": at}
    trial = optuna.trial.create_trial(value=1.0, user_attrs=attributes)
    trial.number, trial.datetime_start = number, noon + timedelta(seconds=start)
    trial.datetime_complete = noon + timedelta(seconds=stop)
    return trial


def test_the_end_says_how_fast_the_trials_followed_each_other(tmp_path):
    first, second = timed(0, 0, 4, 10), timed(1, 10, 10.25, 18)
    ended = "search finished: 3 complete, 1 pruned, 0 failed, 0 waiting in 1 s"
    assert end_lines(outcome(tmp_path), [first, second]) == (
        f"{ended}\n2 trials, 400 an hour, 0.25 s between two trials of a device (warm start, median)"
    )
    assert end_lines(outcome(tmp_path), [first]) == ended


def test_an_interrupted_search_says_in_the_end_what_continues_it_where_it_lies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = "interrupted: 3 complete, 1 pruned, 0 failed, 0 waiting in 1 s; continue with `foxtune resume s"
    assert end_lines(outcome(tmp_path / "runs" / "s", ended=Ended.INTERRUPTED), []) == f"{told}`"
    elsewhere = outcome(tmp_path / "other" / "s", ended=Ended.INTERRUPTED)
    assert end_lines(elsewhere, []) == f"{told} --runs {tmp_path / 'other'}`"


def test_the_table_has_a_line_per_trial_and_marks_the_best():
    study = study_of(0.5, 1.25)
    assert trial_table(study.trials, 1).splitlines() == [
        "   trial     state  wf_sharpe  gamma",
        "       0  COMPLETE     0.5000    0.5",
        "*      1  COMPLETE     1.2500    0.5",
    ]


def test_a_trial_that_did_not_end_shows_its_last_score_in_brackets():
    study = study_of(0.5)
    trial = study.ask()
    trial.report(0.25, 1)
    trial.report(0.75, 2)
    study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    assert "1    PRUNED   (0.7500)" in trial_table(study.trials, 0)


def test_a_degenerate_trial_is_called_so():
    study = study_of()
    trial = study.ask()
    trial.set_user_attr(DEGENERATE, ["seed 0: 0 trades, min_trades is 1"])
    study.tell(trial, -10.0)
    assert "-10.0000 degenerate" in trial_table(study.trials, None)


def test_of_a_long_list_the_best_are_shown_in_the_order_of_their_numbers():
    study = study_of(*range(LONGEST_TABLE + 5))
    lines = trial_table(study.trials, LONGEST_TABLE + 4).splitlines()
    assert len(lines) == LONGEST_TABLE + 2
    assert lines[1].split()[0] == "5"
    assert lines[-1] == "(5 more trials in the report)"
    study = study_of(*range(LONGEST_TABLE + 1))
    assert trial_table(study.trials, None).endswith("\n(1 more trial in the report)")


def test_the_best_trial_is_told_with_its_parameters():
    assert best_lines(study_of(1.25).trials[0]) == "best trial 0: wf_sharpe 1.2500\n  gamma = 0.5"


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """A shell in ``tmp_path`` that finds foxtune; returns the folder in which it does."""
    program = tmp_path / "bin" / "foxtune"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.chdir(tmp_path)
    return program.parent


def test_the_next_commands_can_be_typed_as_they_stand(tmp_path, shell):
    best = Best(2, 1.0, 0.3, {})
    assert next_commands(outcome(tmp_path / "runs" / "s", best)).splitlines() == [
        "next:",
        "  foxtune replay s --best",
        "  foxtune dashboard s",
        "  foxtune resume s --trials 8",
    ]


@pytest.mark.parametrize(("prefix", "path"), [(".venv", ".venv"), ("/opt/absent", None)])
def test_a_shell_that_does_not_find_foxtune_is_told_how_to(tmp_path, shell, monkeypatch, prefix, path):
    (shell / "foxtune").unlink()
    monkeypatch.setattr("sys.prefix", str(tmp_path / prefix))
    if path is not None:
        (tmp_path / path / "bin").mkdir(parents=True)
        (tmp_path / path / "bin" / "activate").write_text("")
    lines = next_commands(outcome(tmp_path / "runs" / "s", Best(2, 1.0, 0.3, {}))).splitlines()
    told = [] if path is None else ["  . .venv/bin/activate"]
    assert lines[: 2 + len(told)] == ["next:", *told, "  foxtune replay s --best"]


@pytest.mark.parametrize("ended", [Ended.INTERRUPTED, Ended.TIME_BUDGET, Ended.TOO_MANY_FAILURES])
def test_a_study_elsewhere_is_named_with_its_folder_and_goes_on_to_what_was_asked(tmp_path, shell, ended):
    lines = next_commands(outcome(tmp_path / "other" / "s", ended=ended)).splitlines()
    assert lines == [
        "next:",
        f"  foxtune dashboard s --runs {tmp_path / 'other'}",
        f"  foxtune resume s --runs {tmp_path / 'other'}",
    ]


def test_trials_that_a_fork_copied_do_not_count_in_the_number_to_ask_for(tmp_path, shell):
    assert "  foxtune resume s --trials 2" in next_commands(outcome(tmp_path / "runs" / "s", copied=3))
