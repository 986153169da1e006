"""A training that sleeps and needs next to nothing else: a search of many shows what the driver needs."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.config import TrainerConfig
from trainer.evaluation_file import EVALUATION_FILE
from trainer.reports import EpochReport, LearningReport, WalkForwardScore
from trainer.trial_statistics import STATISTICS_FILE

LEARNING = LearningReport(1.0, 0.1, 0.2, 3.0, 0.0, 0, 0.0, 1e-4)
PROCESS = "process"
KEPT = (EVALUATION_FILE, STATISTICS_FILE)


@dataclass(frozen=True)
class SleepingTrainings:
    """Builds trainings that sleep and report the same score after every epoch.

    Attributes:
        epoch_seconds: Of every epoch.
        score: What each reports.
        finished: A folder with the files that a finished training leaves.
    """

    epoch_seconds: float
    score: WalkForwardScore
    finished: Path

    def __call__(
        self, config: TrainerConfig, market: Any, directory: Path, *, resume: bool
    ) -> SleepingTraining:
        """Builds one; it writes no checkpoint, so there is nothing to resume."""
        return SleepingTraining(self, config.training.epochs, directory)


class SleepingTraining:
    """A ``hpo.trial.trainable.SteppedTraining`` of known length.

    Args:
        trainings: Which of them it is.
        epochs: How many.
        directory: The trial's folder.
    """

    warm = True

    def __init__(self, trainings: SleepingTrainings, epochs: int, directory: Path) -> None:
        self._trainings, self._epochs, self._directory = trainings, epochs, directory
        self.reports: list[EpochReport] = []

    @property
    def finished(self) -> bool:
        """Whether every epoch is done."""
        return len(self.reports) >= self._epochs

    def run_epoch(self) -> EpochReport:
        """Sleeps through one epoch."""
        seconds = self._trainings.epoch_seconds
        time.sleep(seconds)
        epoch = len(self.reports) + 1
        self.reports.append(EpochReport(epoch, self._epochs, self._trainings.score, LEARNING, seconds))
        return self.reports[-1]

    def save(self) -> None:
        """Writes nothing."""

    def finish(self) -> None:
        """Leaves what the driver reads of a finished training, and the number of this process."""
        (self._directory / PROCESS).write_text(str(os.getpid()))
        for name in KEPT:
            shutil.copyfile(self._trainings.finished / name, self._directory / name)

    def close(self) -> None:
        """Waits for nothing."""
