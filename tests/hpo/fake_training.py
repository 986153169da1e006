"""A training without torch: its score is a known function of the parameters; it checkpoints every epoch."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trainer.config import TrainerConfig
from trainer.errors import MemoryPlanError, NonFiniteError
from trainer.reports import EpochReport, FoldScore, LearningReport, WalkForwardScore

LEARNING = LearningReport(1.0, 0.1, 0.2, 3.0, 0.0, 0, 0.0, 1e-4)


@dataclass(frozen=True)
class FakeBars:
    timestamp: np.ndarray = field(default_factory=lambda: np.arange(10) * 3600 * 10**9)


@dataclass(frozen=True)
class FakeMarket:
    data_hash: str = "d" * 64
    name: str = "fake"
    periods_per_year: float = 8766.0
    bars: FakeBars = field(default_factory=FakeBars)
    array: np.ndarray = field(default_factory=lambda: np.zeros(10))


class Silent:
    """A ledger's watcher that is told and does nothing."""

    def started(self, number, params):
        pass

    def epoch(self, number, report):
        pass

    def ended(self, number, state, value, reason):
        pass


def fake_score(config: TrainerConfig, epoch: int) -> float:
    return -abs(config.agent.iql_expectile_tau - 0.8) + 0.01 * epoch


def fake_report(value: float, epoch: int, epochs: int, degenerate: tuple[str, ...] = ()) -> EpochReport:
    folds = tuple(FoldScore(0, fold, value, True, 5 + fold, 0.1, 100, 3.0, False) for fold in range(3))
    score = WalkForwardScore(value, 0.5, ((0, value),), 0.0, folds, 0, degenerate, 1.2)
    return EpochReport(epoch, epochs, score, LEARNING, 0.01)


class FakeTraining:
    """Runs ``epoch_seconds`` an epoch; ``fail``, ``kill`` and ``log`` are files' names in the runs folder."""

    warm = False

    def __init__(
        self, config: TrainerConfig, market: FakeMarket, directory: Path, *, resume: bool = False
    ) -> None:
        self.config, self.market, self.directory = config, market, directory
        self.reports: list[EpochReport] = []
        if resume:
            scores = json.loads((directory / "checkpoint.pt").read_text())
            self.reports = [self._report(score, index + 1) for index, score in enumerate(scores)]

    @property
    def finished(self) -> bool:
        return len(self.reports) >= self.config.training.epochs

    def run_epoch(self) -> EpochReport:
        epoch = len(self.reports) + 1
        with (self.directory / "epochs.log").open("a") as log:
            log.write(f"{epoch}\n")
        time.sleep(self.epoch_seconds())
        self.trouble(epoch)
        report = self._report(fake_score(self.config, epoch), epoch)
        self.reports.append(report)
        self.save()
        sys.stdout.write(f"GPUs {os.environ.get('CUDA_VISIBLE_DEVICES')!r}\n")
        sys.stdout.write(f"printed in epoch {epoch}\n")
        return report

    def epoch_seconds(self) -> float:
        return 0.0

    def trouble(self, epoch: int) -> None:
        pass

    def save(self) -> None:
        partial = self.directory / "checkpoint.partial"
        partial.write_text(json.dumps([report.score.value for report in self.reports]))
        partial.replace(self.directory / "checkpoint.pt")

    def finish(self) -> None:
        (self.directory / "weights.pt").write_text("weights")

    def close(self) -> None:
        pass

    def _report(self, value: float, epoch: int) -> EpochReport:
        return fake_report(value, epoch, self.config.training.epochs)


class SlowTraining(FakeTraining):
    def epoch_seconds(self) -> float:
        return 0.4


class QuickTraining(FakeTraining):
    def epoch_seconds(self) -> float:
        return 0.1


class NanTraining(FakeTraining):
    def trouble(self, epoch: int) -> None:
        raise NonFiniteError("TD error", 10 + epoch, 2)


class OddFailing(FakeTraining):
    """Trials with an odd number fail in their second epoch."""

    def trouble(self, epoch: int) -> None:
        if int(self.directory.name) % 2 and epoch == 2:
            raise NonFiniteError("TD error", 7, 0)


class KilledOnce(FakeTraining):
    """The process of trial 0 kills itself after its second report, once."""

    def trouble(self, epoch: int) -> None:
        marker = self.directory / "killed"
        if self.directory.name == "0000" and epoch == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class AlwaysKilled(FakeTraining):
    """The process of trial 0 always dies."""

    def trouble(self, epoch: int) -> None:
        if self.directory.name == "0000":
            os.kill(os.getpid(), signal.SIGKILL)


class Hanging(FakeTraining):
    """The second epoch of trial 0 never ends; its process is named in a file."""

    def trouble(self, epoch: int) -> None:
        if self.directory.name == "0000" and epoch == 2:
            with (self.directory / "processes").open("a") as processes:
                processes.write(f"{os.getpid()}\n")
            time.sleep(600)


class OutOfMemory(FakeTraining):
    """The first trial is refused by the plan, the second one meets torch's error; names its process."""

    def trouble(self, epoch: int) -> None:
        from torch import OutOfMemoryError

        (self.directory / "process").write_text(str(os.getpid()))
        if self.directory.name == "0000":
            raise MemoryPlanError("the plan needs 9000 MiB, but 4000 MiB are free; lower batch_size")
        if self.directory.name == "0001":
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")


class FullDisk(FakeTraining):
    """The third checkpoint of trial 1 meets a full disk while the file ``full`` is in the runs folder."""

    def save(self) -> None:
        full = self.directory.parents[2] / "full"
        if self.directory.name == "0001" and len(self.reports) == 3 and full.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.directory / "checkpoint.pt"))
        super().save()


class SharedByTwo(FakeTraining):
    """Of two drivers with folders of their own, side by side: nobody's trials end before both run some.

    The second epoch of a trial never ends in a folder that holds the file ``hang``.
    """

    def trouble(self, epoch: int) -> None:
        runs = self.directory.parents[2]
        wait_for(lambda: len({log.parents[3] for log in runs.parent.glob("*/*/trials/*/epochs.log")}) == 2)
        if epoch == 2 and (runs / "hang").exists():
            time.sleep(600)


class ReportsIntoAnOutage(FakeTraining):
    """The second epoch of trial 2 ends when the file ``down`` is in the runs folder."""

    def trouble(self, epoch: int) -> None:
        if self.directory.name == "0002" and epoch == 2:
            wait_for((self.directory.parents[2] / "down").exists)


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("what this training waits for did not happen")
        time.sleep(0.02)
