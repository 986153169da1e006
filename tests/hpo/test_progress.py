"""What a search says while it runs: trials done, the best one, and the time left."""

import io

import pytest
from rich.console import Console

from hpo.progress import SearchProgress


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def make(clock):
    def build(trials, done=0, budget=None, best=None):
        written = io.StringIO()
        console = Console(file=written, highlight=False, soft_wrap=True)
        return SearchProgress(trials, done, budget, best, console, clock), written

    return build


def test_a_line_says_trials_done_best_so_far_and_time_left_without_a_budget(make, clock):
    progress, written = make(4)
    progress.started(0, {"gamma": 0.95})
    clock.now += 30
    progress.ended(0, "COMPLETE", 1.25, None)
    assert written.getvalue() == (
        "trial 0 COMPLETE 1.2500: gamma=0.95  [1/4, best 1.2500 (trial 0), about 2 min left]\n"
    )


def test_before_any_work_is_done_no_time_is_promised(make):
    progress, _ = make(4)
    progress.started(0, {})
    assert progress.seconds_left() is None


def test_epochs_of_running_trials_count_by_their_share(make, clock, fakes):
    progress, _ = make(2)
    progress.started(0, {})
    clock.now += 10
    progress.epoch(0, fakes.fake_report(0.1, 1, 4))
    assert progress.seconds_left() == 10 * 1.75 / 0.25


def test_trials_of_an_earlier_run_say_nothing_about_the_speed(make, clock):
    progress, written = make(10, done=8, best=(2.0, 5))
    clock.now += 60
    progress.ended(8, "FAIL", None, "killed")
    assert "[9/10, best 2.0000 (trial 5), about 60 s left]" in written.getvalue()


def test_the_budget_bounds_the_time_left(make, clock):
    progress, _ = make(100, budget=90)
    assert progress.seconds_left() == 90
    clock.now += 30
    progress.ended(0, "PRUNED", 0.1, None)
    assert progress.seconds_left() == 60


def test_a_degenerate_score_is_not_the_best(make, clock):
    progress, written = make(2)
    clock.now += 1
    progress.ended(0, "COMPLETE", -10.0, None)
    assert "best none yet" in written.getvalue()
