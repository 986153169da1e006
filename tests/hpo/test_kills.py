"""Whatever is killed and whenever, a resume ends with the trials asked for, each of them once."""

from __future__ import annotations

import os
import random
import signal
import sys

import pytest
from real_ray import REAL_RAY

from hpo.outcome import Ended
from hpo.tuner import resume

pytestmark = [pytest.mark.slow, REAL_RAY]
SEED = 20_260
KEYS = {"epochs": 5, "concurrent": 2, "stopping": {"pruner": "none"}}


def finish(search, fakes):
    """Resumes in this process, which needs one trial's process only."""
    alone = search.model_copy(update={"concurrent": 1})
    return resume(alone, market=fakes.FakeMarket(), training="fake_training:FakeTraining")


def test_a_driver_killed_at_three_random_moments_and_a_worker_once_lose_and_repeat_nothing(
    driver, fakes, cluster, make_search
):
    import killed_search as check

    moments = random.Random(SEED)
    for round_ in range(3):
        search = make_search(trials=4 * (round_ + 1), **KEYS)
        process = driver("resume" if round_ else "tune", search, "QuickTraining")
        check.wait_for_epochs(process, search, 1)
        assert process.poll() is None, check.output_file(search).read_text()
        deaths = 1
        if round_ == 1:
            epochs = moments.randint(1, 4)
            sys.stdout.write(f"seed {SEED}, round {round_}: a worker killed after {epochs} more epochs\n")
            check.wait_for_epochs(process, search, epochs)
            os.kill(check.processes_of(process, "Trainable")[0].pid, signal.SIGKILL)
            deaths += 1
        epochs = moments.randint(1, 12)
        sys.stdout.write(f"seed {SEED}, round {round_}: the driver killed after {epochs} more epochs\n")
        check.wait_for_epochs(process, search, epochs)
        check.kill(process)
        check.require_nothing_running(search)
        outcome = finish(search, fakes)
        assert outcome.ended is Ended.FINISHED
        assert (outcome.complete, outcome.waiting) == (search.trials, 0)
        check.require_finished(search, deaths + 2 * round_, fakes.FakeMarket())


def test_a_search_whose_head_is_killed_says_so_fails_and_is_resumed(driver, fakes, cluster, make_search):
    import killed_search as check

    search = make_search(trials=3, **KEYS)
    process = driver("tune", search, "SlowTraining", "3")
    check.wait_for_epochs(process, search, 2)
    (head,) = check.processes_of(process, "gcs_server")
    head.kill()
    assert process.wait(check.PATIENCE_SECONDS) == 1
    output = check.output_file(search).read_text()
    assert "the Ray cluster is lost: the head at" in output
    assert "foxtune resume" in output
    assert "Traceback" not in output
    check.require_nothing_running(search)
    outcome = finish(search, fakes)
    assert outcome.ended is Ended.FINISHED
    check.require_finished(search, 1, fakes.FakeMarket())
