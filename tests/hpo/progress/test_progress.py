"""What a search says while it runs: trials done, the best one, speed and the time left."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from hpo.gpus.nvml import Memory
from hpo.gpus.resources import Gpu
from hpo.outcome import Best, Ended, SearchOutcome
from hpo.progress.progress import JsonDisplay, LineDisplay, SearchProgress
from hpo.progress.progress_table import TableDisplay, gpu_use
from hpo.progress.standing import BestSoFar, Standing
from hpo.study.run_directory import RunDirectory
from trainer.errors import CudaSetupError

GPU = Gpu(0, "NVIDIA H200", "GPU-1")


def now():
    return datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lines(clock):
    """Builds a search whose lines are caught."""

    def build(trials, done=0, budget=None, best=None):
        written = io.StringIO()
        display = LineDisplay(Console(file=written, highlight=False, soft_wrap=True), now)
        standing = Standing(trials, done, budget, best, updates=100, clock=clock)
        progress = SearchProgress("s", standing, display)
        with progress:
            return progress, standing, written

    return build


def test_a_finished_trial_is_one_line_with_time_score_error_best_and_time_left(lines, clock, fakes):
    progress, _, written = lines(4)
    progress.started(0, {"gamma": 0.95, "her_strategy": "final"})
    progress.epoch(0, fakes.fake_report(1.25, 2, 2))
    clock.now += 30
    progress.ended(0, "COMPLETE", 1.25, None)
    assert written.getvalue() == (
        "2026-03-04 05:06:07Z  trial 0 COMPLETE 1.2500 +- 0.5000: gamma=0.95, her_strategy=final  "
        "[1/4, best 1.2500 +- 0.5000 (trial 0), about 2 min left]\n"
    )


def test_a_failed_trial_is_told_with_its_reason(lines):
    progress, _, written = lines(4)
    progress.started(0, {})
    progress.ended(0, "FAIL", None, "killed")
    assert "trial 0 FAIL (killed): " in written.getvalue()


def test_before_any_work_is_done_neither_time_nor_speed_is_promised(lines):
    progress, standing, _ = lines(4)
    progress.started(0, {})
    found = (standing.seconds_left(), standing.trials_per_hour(), standing.member_steps_per_second())
    assert found == (None, None, None)


def test_epochs_of_running_trials_count_by_their_share(lines, clock, fakes):
    progress, standing, _ = lines(2)
    progress.started(0, {})
    clock.now += 10
    progress.epoch(0, fakes.fake_report(0.1, 1, 4))
    assert standing.seconds_left() == 10 * 1.75 / 0.25
    assert standing.member_steps_per_second() == pytest.approx(100 * 3 / 0.01)


def test_trials_of_an_earlier_run_say_nothing_about_the_speed(lines, clock):
    progress, standing, written = lines(10, done=8, best=BestSoFar(2.0, 5))
    clock.now += 60
    progress.started(8, {})
    progress.ended(8, "FAIL", None, "killed")
    assert "[9/10, best 2.0000 (trial 5), about 60 s left]" in written.getvalue()
    assert standing.trials_per_hour() == 60


def test_the_budget_bounds_the_time_left(lines, clock):
    progress, standing, _ = lines(100, budget=90)
    assert standing.seconds_left() == 90
    clock.now += 30
    progress.started(0, {})
    progress.ended(0, "PRUNED", 0.1, None)
    assert standing.seconds_left() == 60


def test_a_degenerate_score_is_not_the_best(lines, clock):
    progress, _, written = lines(2)
    clock.now += 1
    progress.started(0, {})
    progress.ended(0, "COMPLETE", -10.0, None)
    assert "best none yet" in written.getvalue()


def outcome():
    return SearchOutcome(
        study="s", storage="sqlite:///s.db", directory=RunDirectory(Path("/r/s")), ended=Ended.FINISHED,
        complete=1, pruned=0, failed=1, waiting=0, copied=0, best=Best(0, 1.25, 0.5, {"gamma": 0.95}),
        reason="killed (1 of 1 failed trials)", exit_code=0, seconds=12.5,
    )  # fmt: skip


def test_json_has_one_object_per_line_and_nothing_else(clock, fakes):
    stream, said = io.StringIO(), []
    display = JsonDisplay(stream, said.append, now)
    with SearchProgress("s", Standing(2, clock=clock), display) as progress:
        progress.started(0, {"gamma": 0.95})
        progress.epoch(0, fakes.fake_report(1.25, 1, 1))
        clock.now += 10
        progress.ended(0, "COMPLETE", 1.25, None)
        display.say("for people")
    display.summary(outcome(), "/r/s/report.html")
    stamp = {"time": "2026-03-04T05:06:07.000000Z"}
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == [
        {"event": "start", **stamp, "study": "s", "trials": 2, "done": 0, "best": None},
        {"event": "trial_started", **stamp, "number": 0, "params": {"gamma": 0.95}},
        {
            "event": "trial_finished",
            **stamp,
            "number": 0,
            "state": "COMPLETE",
            "value": 1.25,
            "error": 0.5,
            "reason": None,
            "params": {"gamma": 0.95},
            "seconds": 10.0,
            "done": 1,
            "trials": 2,
            "seconds_left": 10.0,
        },
        {
            "event": "summary",
            **stamp,
            "study": "s",
            "ended": "finished",
            "exit_code": 0,
            "complete": 1,
            "pruned": 0,
            "failed": 1,
            "waiting": 0,
            "reason": "killed (1 of 1 failed trials)",
            "best": {"number": 0, "value": 1.25, "standard_error": 0.5, "params": {"gamma": 0.95}},
            "seconds": 12.5,
            "folder": "/r/s",
            "report": "/r/s/report.html",
        },
    ]
    assert said == ["for people"]


def test_the_table_shows_counts_best_speed_gpus_and_the_running_trials(clock, fakes):
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=100, highlight=False, color_system=None)
    display = TableDisplay(lambda: ["GPU 0 NVIDIA H200: 93 % busy"], console)
    standing = Standing(8, 1, None, BestSoFar(0.5, 0, 0.25), updates=100, clock=clock)
    with SearchProgress("mine", standing, display) as progress:
        progress.started(1, {"gamma": 0.95})
        clock.now += 120
        progress.ended(1, "COMPLETE", 0.4, None)
        progress.started(2, {"gamma": 0.9, "her_ratio": 0.25})
        progress.epoch(2, fakes.fake_report(0.75, 1, 4))
        console.print(display)
    drawn = written.getvalue()
    assert "trial 1 COMPLETE 0.4000: gamma=0.95" in drawn
    for text in (
        "mine: 2/8 trials in 2 min, about 9 min left",
        "running 1  complete 1  pruned 0  failed 0",
        "best 0.5000 +- 0.2500 (trial 0)",
        "30 trials/h  30,000 member-steps/s",
        "GPU 0 NVIDIA H200: 93 % busy",
    ):
        assert f"\n{text}" in drawn.replace("\r", ""), text
    assert any(line.split() == ["2", "1/4", "0.7500", "+-", "0.5000", "gamma=0.9,", "her_ratio=0.25"]
               for line in drawn.splitlines())  # fmt: skip


class FakeNvml:
    def __init__(self, fails=False):
        self.fails = fails

    def memory(self, uuid):
        return Memory(140 * 2**30, 128 * 2**30, 12 * 2**30)

    def name(self, uuid):
        return "NVIDIA H200"

    def driver_version(self):
        return "580"

    def utilisation(self, uuid):
        if self.fails:
            raise CudaSetupError("the NVIDIA driver refuses")
        return 93


def test_the_use_of_a_gpu_is_what_the_driver_says_and_silence_where_it_says_nothing():
    assert gpu_use((GPU,), FakeNvml()) == ["GPU 0 NVIDIA H200: 93 % busy, 12.0 of 140.0 GiB"]
    assert gpu_use((GPU,), FakeNvml(fails=True)) == []
    assert gpu_use((GPU,), None) == []
