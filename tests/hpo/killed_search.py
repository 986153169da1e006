"""Searches that are killed: the driver as a process, moments to kill it at, and what must hold afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import optuna
import psutil
from optuna.trial import FrozenTrial, TrialState

from hpo.config import SearchConfig
from hpo.outcome import Ended, SearchOutcome
from hpo.study.run_directory import RunDirectory
from hpo.study.studies import open_existing
from hpo.tuner import resume, study_url

HERE = Path(__file__).parent
PROGRAM = HERE / "search_program.py"
PATIENCE_SECONDS = 120.0


def start(command: str, search: SearchConfig, training: str, *words: str) -> subprocess.Popen[bytes]:
    """Starts a driver in a session of its own, with a Ray cluster of its own."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "TUNE_"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), str(HERE)])
    Path(search.runs).mkdir(parents=True, exist_ok=True)
    with output_file(search).open("w") as output:  # a pipe would be held open by Ray's agents for a minute
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), command, search.model_dump_json(), training, *words],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def output_file(search: SearchConfig) -> Path:
    """What the newest driver of a search prints."""
    return Path(search.runs) / "output.txt"


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.05)


def epochs_run(search: SearchConfig) -> dict[int, list[int]]:
    """Trial -> epochs in the order in which any process began them, repeated ones included."""
    trials = RunDirectory.of(search).path / "trials"
    return {
        int(log.parent.name): [int(line) for line in log.read_text().split()]
        for log in sorted(trials.glob("*/epochs.log"))
    }


def wait_for_epochs(process: subprocess.Popen[bytes], search: SearchConfig, more: int) -> None:
    """Returns when ``more`` epochs than now have begun, or the driver has ended."""
    before = sum(map(len, epochs_run(search).values()))
    wait_until(
        lambda: process.poll() is not None or sum(map(len, epochs_run(search).values())) >= before + more,
        f"{more} epochs",
    )


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def processes_of(process: subprocess.Popen[bytes], name: str) -> list[psutil.Process]:
    """Descendants of a driver whose command line or name holds ``name``."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            if name in " ".join((child.name(), *child.cmdline())):
                found.append(child)
        except psutil.Error:  # it has ended meanwhile
            continue
    return found


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a driver by SIGKILL and waits until its trials' processes are gone too, as they must."""
    workers = processes_of(process, "Trainable") if process.poll() is None else []
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(is_alive, workers)), "the end of the trials' processes")


def require_nothing_running(search: SearchConfig) -> list[FrozenTrial]:
    """Opens the study as any command does, after which nothing is RUNNING, and returns its trials."""
    opened = open_existing(study_url(search.runs, search.study, search.storage), search.study)
    trials = opened.study.get_trials()
    assert TrialState.RUNNING not in {trial.state for trial in trials}
    require_each_once(trials)
    return trials


def require_each_once(trials: list[FrozenTrial]) -> None:
    """No set of parameters twice, no epoch missing before a later one."""
    asked = [str(sorted(trial.params.items())) for trial in trials if trial.params]
    assert len(set(asked)) == len(asked)
    for trial in trials:
        epochs = sorted(trial.intermediate_values)  # a database gives them in an order of its own
        assert epochs == list(range(1, len(epochs) + 1)), f"trial {trial.number}: {epochs}"


def require_finished(search: SearchConfig, interruptions: int, market: object) -> list[FrozenTrial]:
    """What must hold when a search has been finished after so many deaths of its processes."""
    study = optuna.load_study(study_name=search.study, storage=_storage(search))
    trials = study.get_trials()
    finished = [trial for trial in trials if trial.state.is_finished()]
    assert len(finished) == len(trials) == search.trials
    require_each_once(trials)
    for trial in trials:
        if trial.state == TrialState.COMPLETE:
            assert len(trial.intermediate_values) == search.trainer.training.epochs
    again = sum(len(epochs) - len(set(epochs)) for epochs in epochs_run(search).values())
    # A death costs the epoch under way of every trial, and the one before if its checkpoint was not written.
    assert again <= 2 * search.concurrent * interruptions
    outcome: SearchOutcome = resume(search, market=market, training="no.such:thing")
    assert (outcome.ended, outcome.exit_code) == (Ended.NOTHING_TO_DO, 0)
    assert "nothing to do" in outcome.message
    return trials


def _storage(search: SearchConfig) -> optuna.storages.BaseStorage:
    from hpo.storage.storages import open_storage

    return open_storage(study_url(search.runs, search.study, search.storage))
