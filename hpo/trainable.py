"""TrialTrainable: one trial in a Ray actor, one epoch a step. It never writes to the study."""

from __future__ import annotations

import gc
import importlib
import logging
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from ray import tune

from hpo.attributes import OUT_OF_MEMORY, Machine
from hpo.pinning import pin
from hpo.run_directory import CHECKPOINT, LOG
from hpo.trial_process import TrialLog, describe_machine, hide_gpus
from hpo.watchdog import TrialTimeoutError, Watchdog, has_timed_out, timeout_reason
from trainer.config import TrainerConfig
from trainer.errors import FoxtuneError, MemoryPlanError
from trainer.reports import EpochReport

TRAINING = "trainer.training:Training"
ASSIGNMENT = "assignment"
OUTCOME = "outcome"

logger = logging.getLogger("foxtune")


class SteppedTraining(Protocol):
    """What a trial drives: ``trainer.training.Training``."""

    reports: list[EpochReport]

    @property
    def finished(self) -> bool:
        """Whether every epoch is done."""

    def run_epoch(self) -> EpochReport:
        """Runs one epoch."""

    def save(self) -> None:
        """Writes a checkpoint now."""

    def finish(self) -> object:
        """Writes what stays of a finished training."""

    def close(self) -> None:
        """Waits for writes under way."""


class TrainingFactory(Protocol):
    """Builds a training."""

    def __call__(
        self, config: TrainerConfig, market: Any, directory: Path, *, resume: bool
    ) -> SteppedTraining:
        """Builds it, or continues it from the directory's checkpoint."""


@dataclass(frozen=True)
class Assignment:
    """What the driver tells a process to train.

    Attributes:
        number: Optuna's trial number.
        config: The effective configuration.
        directory: The trial's folder.
        stop_file: There when the driver wants the trial to save and stop.
        gpus: GPUs of the trial; 0 hides all of them.
        timeout: Seconds that an epoch may take; ``None``: no limit.
    """

    number: int
    config: TrainerConfig
    directory: Path
    stop_file: Path
    gpus: float
    timeout: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What a step tells the driver.

    Attributes:
        reports: New epochs; after a resume also those done before, which the study may not have seen.
        machine: Where it runs; with a trial's first step only.
        failure: Why the training ended; ``None`` while all is well.
    """

    reports: tuple[EpochReport, ...] = ()
    machine: Machine | None = None
    failure: str | None = None


class TrialTrainable(tune.Trainable):
    """Builds the training at its first step and runs one epoch in each.

    An error of the training is told as an :class:`Outcome`; the step after it raises, so that Ray ends the
    process: one that ran out of memory or lost its CUDA context trains no other trial. Only the death of
    the process itself makes Ray retry, and the retry continues from the checkpoint.
    """

    def setup(
        self,
        config: dict[str, Any],
        market: Any = None,
        training: str | TrainingFactory = TRAINING,
    ) -> None:
        """Receives the trial's assignment, and the market from the object store."""
        self._market = market
        self._factory = training
        self._log = TrialLog()
        self._training: SteppedTraining | None = None
        self._failed: str | None = None
        self._take(config[ASSIGNMENT])

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Lets go of the last trial and takes another."""
        self._release()
        self._take(new_config[ASSIGNMENT])
        return True

    def step(self) -> dict[str, Any]:
        """Runs one epoch.

        Raises:
            RuntimeError: In the step after a failure, to end the process.
        """
        if self._failed is not None:
            raise RuntimeError(self._failed)
        self._watchdog.start()
        try:
            return {OUTCOME: self._advance()}
        except Exception as error:
            self._failed = reason_of(error)
            logger.error("trial %d failed: %s\n%s", self._assignment.number, error, traceback.format_exc())
            return {OUTCOME: Outcome(failure=self._failed)}
        finally:
            self._watchdog.stop()

    def cleanup(self) -> None:
        """Saves what is unfinished if the driver asks for it."""
        unfinished = self._training is not None and not self._training.finished and self._failed is None
        if self._training is not None and unfinished and self._assignment.stop_file.exists():
            self._training.save()
        self._release()
        self._log.close()

    def _take(self, assignment: Assignment) -> None:
        self._assignment = assignment
        if assignment.gpus == 0:
            hide_gpus()
        self._log.open(assignment.directory / LOG)
        self._watchdog = Watchdog(assignment.timeout, assignment.directory)
        logger.info("trial %d: %s", assignment.number, assignment.config.model_dump_json())

    def _advance(self) -> Outcome:
        first = self._training is None
        if self._training is None:
            self._training = self._build()
        before = tuple(self._training.reports) if first else ()
        new = () if self._training.finished else (self._training.run_epoch(),)
        if self._training.finished:
            self._training.finish()
        if new:
            logger.info(
                "trial %d epoch %d: score %.4f", self._assignment.number, new[0].epoch, new[0].score.value
            )
        return Outcome((*before, *new), describe_machine() if first else None)

    def _build(self) -> SteppedTraining:
        directory = self._assignment.directory
        if has_timed_out(directory):  # Ray has started the process again; it would hang once more
            raise TrialTimeoutError(timeout_reason(self._assignment.timeout))
        if self._assignment.gpus > 0:
            from torch import cuda

            logger.info("trial %d: on %s", self._assignment.number, pin(self._assignment.gpus, cuda))
        resume = (directory / CHECKPOINT).exists()
        factory = resolve_factory(self._factory)
        return factory(self._assignment.config, self._market, directory, resume=resume)

    def _release(self) -> None:
        self._watchdog.close()
        if self._training is not None:
            self._training.close()
        self._training = None
        gc.collect()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()


def resolve_factory(factory: str | TrainingFactory) -> TrainingFactory:
    """Imports ``module:name``; anything else is returned as it is."""
    if not isinstance(factory, str):
        return factory
    module, _, name = factory.partition(":")
    return cast(TrainingFactory, getattr(importlib.import_module(module), name))


def reason_of(error: BaseException) -> str:
    """Puts an error into one line: the user's errors as they are, others with their type."""
    lines: Sequence[str] = str(error).strip().splitlines() or ["no message"]
    if isinstance(error, MemoryError | MemoryPlanError) or "OutOfMemory" in type(error).__name__:
        return f"{OUT_OF_MEMORY}: {lines[0]}"
    if isinstance(error, FoxtuneError):
        return " ".join(line.strip() for line in lines)
    return f"{type(error).__name__}: {lines[0]}"
