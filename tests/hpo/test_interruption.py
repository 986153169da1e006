from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import optuna
import psutil
import pytest
from killed_search import PATIENCE_SECONDS, is_alive, wait_until
from optuna.trial import TrialState
from real_ray import REAL_RAY

from hpo.interruption import Interruption, SearchStopped
from hpo.outcome import Ended
from hpo.study.studies import open_existing, running
from hpo.tuner import resume

pytestmark = REAL_RAY
SCRIPT = """
import sys
from fake_training import FakeMarket
from hpo.config import SearchConfig
from hpo.tuner import tune
from search_spaces import packaged

search = SearchConfig.model_validate_json(sys.argv[1])
outcome = tune(search, packaged()["iql_her"], market=FakeMarket(), training="fake_training:SlowTraining")
print(outcome.message, flush=True)
sys.exit(outcome.exit_code)
"""


@pytest.fixture
def started(fakes, make_search, tmp_path):
    """A search of four trials in a process of its own, two of them in their second epoch."""
    search = make_search(epochs=6, trials=4, concurrent=2, stopping={"pruner": "none"})
    logs = [tmp_path / "runs" / "s" / "trials" / f"{number:04d}" / "epochs.log" for number in (0, 1)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "TUNE_"))}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, search.model_dump_json()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    with process:
        wait_until(
            lambda: (
                process.poll() is not None
                or all(log.exists() and len(log.read_text().split()) >= 2 for log in logs)
            ),
            "two trials in flight",
        )
        assert process.poll() is None, process.stdout.read()
        yield process, search
        process.kill()


def study_of(search):
    return optuna.load_study(study_name="s", storage=f"sqlite:///{search.runs}/s/study.db")


def finish(search, fakes):
    """Resumes until the end, in this process and its cluster."""
    outcome = resume(search, market=fakes.FakeMarket(), training="fake_training:FakeTraining")
    trials = study_of(search).get_trials()
    assert outcome.ended is Ended.FINISHED
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 4
    assert all(list(trial.intermediate_values) == [1, 2, 3, 4, 5, 6] for trial in trials)
    assert len({str(trial.params) for trial in trials}) == 4
    assert resume(search, market=fakes.FakeMarket()).ended is Ended.NOTHING_TO_DO
    return trials


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_settles_the_trials_and_resume_finishes_them(started, cluster, fakes, number):
    process, search = started
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # a terminal sends ctrl-C to the whole group
    else:
        process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 128 + number
    assert "interrupted" in output
    assert "foxtune resume s" in output
    assert "Traceback" not in output
    before = study_of(search).get_trials()
    assert {trial.state for trial in before} <= {TrialState.WAITING, TrialState.COMPLETE}
    after = finish(search, fakes)
    assert [trial.params for trial in after][: len(before)] == [trial.params for trial in before]


@pytest.mark.slow
def test_a_killed_driver_leaves_no_training_and_its_trials_are_reconciled_and_continued(
    started, cluster, fakes
):
    process, search = started
    children = psutil.Process(process.pid).children(recursive=True)
    trainings = [child for child in children if "Trainable" in " ".join(child.cmdline())]
    assert trainings
    process.kill()
    process.wait()
    study = study_of(search)
    ghosts = running(study)
    assert ghosts
    opened = open_existing(f"sqlite:///{search.runs}/s/study.db", "s")
    assert opened.reconciliation.requeued == ghosts
    assert running(study) == ()
    wait_until(lambda: not any(map(is_alive, trainings)), "the end of the trials' processes")
    finish(search, fakes)
    for folder in ("0000", "0001"):
        epochs = (opened.directory.path / "trials" / folder / "epochs.log").read_text().split()
        assert len(epochs) <= 7  # six, and at most the one that was cut off


def test_the_first_signal_only_asks_once_trials_run_and_the_second_leaves():
    with Interruption() as interruption:
        interruption.wait_for_trials()
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.requested
        with pytest.raises(SearchStopped):
            os.kill(os.getpid(), signal.SIGINT)
        assert interruption.exit_code == 130


def test_a_signal_before_any_trial_runs_leaves_at_once():
    with Interruption() as interruption, pytest.raises(SearchStopped):
        os.kill(os.getpid(), signal.SIGTERM)
    assert interruption.exit_code == 143


def test_a_signal_while_things_are_written_that_belong_together_leaves_after_them():
    written = []

    def write(interruption):
        with interruption.deferred():
            os.kill(os.getpid(), signal.SIGINT)
            written.append("study and configuration")

    with Interruption() as interruption, pytest.raises(SearchStopped):
        write(interruption)
    assert written
    assert interruption.exit_code == 130


def test_a_signal_that_a_library_swallowed_leaves_before_the_first_trial():
    with Interruption() as interruption:
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(SearchStopped):
            interruption.wait_for_trials()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_says_nothing_of_a_signal():
    with Interruption():
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGINT)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_the_handlers_that_were_there_before_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with Interruption() as interruption:
        interruption.close()
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
