"""What a search costs beside its trainings, with many slots: ``python -m hpo.benchmarks.driver_overhead``.

Trials that sleep run through the whole path: sampler, pruner, study on SQLite, pages of the dashboard, Ray's
processes. All of them report one score, so that the pruner is asked at every epoch and stops nobody, and
leave the files of a training of 5 folds x 3 seeds x 500 bars. Two questions are answered apart:

- What does the driver use? Seconds of its ledger (ask; report, the pruner's question included; the end of a
  trial, its page included), and CPU seconds of its process, Ray's threads included, from the first trial's
  start to the last one's end. The driver does one thing at a time: its share of the wall time says how many
  slots it could serve.
- What do the slots lose? From the end of a trial in a slot to the end of the next one, less the sleep:
  asking, hand-over, set-up, and every report on its way. Each slot's first trial, which waits for its process
  to start, is left out. This counts the trials' own processes too, which share the cores with the driver.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import optuna
from optuna.trial import FrozenTrial

from hpo.benchmarks.large_study import StudySize, write_study
from hpo.benchmarks.search_run import SPACE
from hpo.benchmarks.sleeping_training import PROCESS, SleepingTrainings
from hpo.config import SearchConfig
from hpo.ledger import Decision, Started, StudyLedger
from hpo.outcome import Say
from hpo.study import attributes
from hpo.study.run_directory import RunDirectory
from hpo.tuner import tune
from trainer.benchmarks import machine
from trainer.benchmarks.markdown import markdown_table
from trainer.config import validated
from trainer.reports import EpochReport
from trainer.trial_statistics import STATISTICS_FILE, write_statistics

DATA = "synthetic:known_answer:600:1"  # no training reads it


@dataclass(frozen=True)
class Plan:
    """How much is run.

    Attributes:
        slots: Trials at a time.
        trials: In all.
        epochs: Of a trial.
        epoch_seconds: Of an epoch.
    """

    slots: int = 16
    trials: int = 64
    epochs: int = 10
    epoch_seconds: float = 3.0

    @property
    def trial_seconds(self) -> float:
        """Sleep of a trial."""
        return self.epochs * self.epoch_seconds


@dataclass
class DriverTimes:
    """What the driver's ledger took, in seconds, one entry a call.

    Attributes:
        asks: To find the parameters of a trial and store its start.
        reports: To store an epoch and ask the pruner.
        ends: The same of the last epoch, with all that the end of a trial stores.
        clocks: (wall, CPU seconds of the process) when the first trial was asked for and when the last ended.
    """

    asks: list[float] = field(default_factory=list)
    reports: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    clocks: list[tuple[float, float]] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """Seconds from the first question to the last end."""
        return self.clocks[-1][0] - self.clocks[0][0]

    @property
    def cpu(self) -> float:
        """CPU seconds of the process meanwhile."""
        return self.clocks[-1][1] - self.clocks[0][1]

    @property
    def ledger(self) -> float:
        """Seconds in the ledger."""
        return sum(self.asks) + sum(self.reports) + sum(self.ends)


@contextmanager
def watched() -> Iterator[DriverTimes]:
    """Times every ask and report of the searches that this process drives meanwhile."""
    times = DriverTimes()
    start, record = StudyLedger.start, StudyLedger.record

    def timed_start(ledger: StudyLedger, key: str) -> Started | None:
        times.clocks.append((time.perf_counter(), time.process_time()))
        answer = start(ledger, key)
        times.asks.append(time.perf_counter() - times.clocks[-1][0])
        return answer

    def timed_record(ledger: StudyLedger, key: str, reports: tuple[EpochReport, ...]) -> Decision:
        began = time.perf_counter()
        decision = record(ledger, key, reports)
        times.clocks.append((time.perf_counter(), time.process_time()))
        kind = times.ends if decision is Decision.STOP else times.reports
        kind.append(times.clocks[-1][0] - began)
        return decision

    StudyLedger.start, StudyLedger.record = timed_start, timed_record  # type: ignore[assignment,method-assign]
    try:
        yield times
    finally:
        StudyLedger.start, StudyLedger.record = start, record  # type: ignore[method-assign]


def run(plan: Plan, folder: Path, say: Say) -> tuple[DriverTimes, dict[str, list[float]]]:
    """Searches with trials that sleep; returns also when the trials of each process ended.

    Args:
        plan: How much.
        folder: An empty one.
        say: Is told the search's lines.
    """
    search = validated(
        SearchConfig,
        {
            "study": "driver",
            "runs": str(folder / "runs"),
            "trials": plan.trials,
            "concurrent": plan.slots,
            "resources": {"gpu": 0},
            "trainer": {"training": {"epochs": plan.epochs}, "data": {"path": DATA}},
        },
    )
    trainings = prepare(plan, folder)
    with watched() as times:
        outcome = tune(search, SPACE, training=trainings, say=say)
    study = optuna.load_study(study_name=outcome.study, storage=outcome.storage)
    return times, ends_by_process(study.get_trials(deepcopy=False), outcome.directory)


def prepare(plan: Plan, folder: Path) -> SleepingTrainings:
    """Writes what a finished training of 5 folds x 3 seeds x 500 bars leaves, once for all trials."""
    study = optuna.create_study(direction="maximize")
    write_study(study, folder, StudySize(trials=1))
    (trial,) = study.get_trials()
    score, statistics = attributes.read_score(trial), attributes.read_trial_statistics(trial)
    if score is None or statistics is None:
        raise ValueError("a trial of write_study must have a score and statistics, but got none")
    finished = folder / "trials" / "0000"
    write_statistics(finished / STATISTICS_FILE, statistics)
    return SleepingTrainings(plan.epoch_seconds, score, finished)


def slot_loss(ends: Mapping[str, Sequence[float]], sleep: float) -> tuple[int, float]:
    """How many trials followed another in their slot, and their time there as a fraction beyond the sleep.

    Args:
        ends: When the trials of each process ended, seconds.
        sleep: Of a trial, seconds.
    """
    turns = np.concatenate([np.diff(sorted(each)) for each in ends.values()])
    return turns.size, float(turns.mean() / sleep - 1.0) if turns.size else float("nan")


def ends_by_process(trials: Sequence[FrozenTrial], directory: RunDirectory) -> dict[str, list[float]]:
    """When the trials ended that each process trained, seconds since 1970."""
    ends: dict[str, list[float]] = {}
    for trial in trials:
        if trial.datetime_complete is not None:
            process = (directory.trial(trial.number) / PROCESS).read_text()
            ends.setdefault(process, []).append(trial.datetime_complete.timestamp())
    return ends


def table(plan: Plan, times: DriverTimes, ends: Mapping[str, Sequence[float]]) -> str:
    """Lays the figures out, with their units."""
    trials = sum(map(len, ends.values()))
    followed, loss = slot_loss(ends, plan.trial_seconds)
    rows = [
        ("slots, processes, trials", f"{plan.slots}, {len(ends)}, {trials}"),
        ("sleep of a trial, s", f"{plan.epochs} x {plan.epoch_seconds:g}"),
        ("first question to last end, s", f"{times.wall:.1f}"),
        ("ask, median / most, ms", _spread(times.asks)),
        ("report, median / most, ms", _spread(times.reports)),
        ("end of a trial, median / most, ms", _spread(times.ends)),
        ("ask, reports and end of a trial, s", f"{times.ledger / trials:.3f}"),
        ("the same, share of the wall time", f"{times.ledger / times.wall:.1%}"),
        ("driver's CPU seconds a trial, Ray's threads included", f"{times.cpu / trials:.3f}"),
        ("the same, share of the wall time", f"{times.cpu / times.wall:.1%}"),
        (f"slots' time beyond the sleep, {followed} trials that followed another", f"{loss:.1%}"),
    ]
    return markdown_table(("what", "measured"), rows)


def _spread(seconds: Sequence[float]) -> str:
    milliseconds = 1000 * np.asarray(seconds)
    return f"{np.median(milliseconds):.1f} / {milliseconds.max():.0f}"


def main() -> None:
    """Measures and prints Markdown; progress goes to stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m hpo.benchmarks.driver_overhead", description=main.__doc__
    )
    plan = Plan()
    parser.add_argument("--slots", type=int, default=plan.slots, help="trials at a time")
    parser.add_argument("--trials", type=int, default=plan.trials)
    parser.add_argument("--epochs", type=int, default=plan.epochs)
    parser.add_argument("--epoch-seconds", type=float, default=plan.epoch_seconds)
    asked = parser.parse_args()
    plan = Plan(asked.slots, asked.trials, asked.epochs, asked.epoch_seconds)
    with tempfile.TemporaryDirectory(prefix="foxtune-driver-") as folder:
        times, ends = run(plan, Path(folder), _say)
    sys.stdout.write(f"{machine.describe()}\n\n{table(plan, times, ends)}\n")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    main()
