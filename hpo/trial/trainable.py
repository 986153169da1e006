"""TrialTrainable: one trial in a Ray actor, one epoch a step. It never writes to the study."""

from __future__ import annotations

import importlib
import logging
import platform
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from ray import tune

from hpo.gpus.gpu_memory import GpuMemory, GpuUsage
from hpo.gpus.nvml import find_nvml
from hpo.gpus.pinning import pin
from hpo.job import TRAINING
from hpo.storage.full_disk import full_disk
from hpo.study.attributes import OUT_OF_MEMORY, Machine, Setup
from hpo.study.run_directory import LOG
from hpo.trial.trial_process import TrialLog, describe_machine, hide_gpus
from hpo.trial.watchdog import TrialTimeoutError, Watchdog, has_timed_out, timeout_reason
from trainer.config import TrainerConfig
from trainer.errors import FoxtuneError, MemoryPlanError
from trainer.file_names import CHECKPOINT
from trainer.reports import EpochReport

ASSIGNMENT = "assignment"
OUTCOME = "outcome"
LONGEST_LINE = 400  # of a reason, characters

logger = logging.getLogger("foxtune")


class SteppedTraining(Protocol):
    """What a trial drives: ``trainer.training.Training``.

    Attributes:
        reports: Of the epochs done.
        warm: Whether it took over what the training before it in this process had built.
    """

    reports: list[EpochReport]
    warm: bool

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


@runtime_checkable
class PlansMemory(Protocol):
    """A factory that knows beforehand what GPU memory its trainings need."""

    def needed_bytes(self, config: TrainerConfig, market: Any, available: int) -> int:
        """Bytes of a training; where ``available`` are plenty it may say more."""


@dataclass(frozen=True)
class Assignment:
    """What the driver tells a process to train.

    Attributes:
        number: Optuna's trial number.
        config: The effective configuration.
        directory: The trial's folder.
        stop_file: There when the driver wants the trial to save and stop.
        gpus: GPUs of the trial; 0 hides all of them.
        memory_wait: Seconds to wait until the GPU has the needed memory free.
        timeout: Seconds that an epoch may take; ``None``: no limit.
    """

    number: int
    config: TrainerConfig
    directory: Path
    stop_file: Path
    gpus: float
    memory_wait: float = 0.0
    timeout: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What a step tells the driver.

    Attributes:
        reports: New epochs; after a resume also those done before, which the study may not have seen.
        machine: Where it runs; with a trial's first step only.
        setup: What the start cost; with a trial's first step only.
        usage: What the trial has used of its GPU so far; None without one.
        failure: Why the training ended; ``None`` while all is well.
        obstacle: Whether the machine is to blame for the failure and not the configuration: any other trial
            would meet it too.
    """

    reports: tuple[EpochReport, ...] = ()
    machine: Machine | None = None
    setup: Setup | None = None
    usage: GpuUsage | None = None
    failure: str | None = None
    obstacle: bool = False


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
        self._training_source = training
        self._log = TrialLog()
        self._training: SteppedTraining | None = None
        self._memory: GpuMemory | None = None
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
            obstacle = full_disk(error) is not None
            return {OUTCOME: Outcome(usage=self._last_usage(), failure=self._failed, obstacle=obstacle)}
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
        self._assigned = time.monotonic()
        if assignment.gpus == 0:
            hide_gpus()
        self._log.open(assignment.directory / LOG)
        self._watchdog = Watchdog(assignment.timeout, assignment.directory)
        logger.info("trial %d: %s", assignment.number, assignment.config.model_dump_json())

    def _advance(self) -> Outcome:
        setup: Setup | None = None
        before: tuple[EpochReport, ...] = ()
        if self._training is None:
            self._training = self._build()
            before = tuple(self._training.reports)
            setup = Setup(time.monotonic() - self._assigned, self._training.warm, time.time())
        new = () if self._training.finished else (self._training.run_epoch(),)
        if self._training.finished:
            self._training.finish()
        if new:
            logger.info(
                "trial %d epoch %d: score %.4f", self._assignment.number, new[0].epoch, new[0].score.value
            )
        machine = None if setup is None else describe_machine()
        return Outcome((*before, *new), machine, setup, self._usage())

    def _build(self) -> SteppedTraining:
        assignment = self._assignment
        directory = assignment.directory
        if has_timed_out(directory):  # Ray has started the process again; it would hang once more
            raise TrialTimeoutError(timeout_reason(assignment.timeout))
        factory = resolve_factory(self._training_source)
        if assignment.gpus > 0:
            self._take_gpu(factory)
        resume = (directory / CHECKPOINT).exists()
        return factory(assignment.config, self._market, directory, resume=resume)

    def _take_gpu(self, factory: TrainingFactory) -> None:
        """Asserts that the GPU is there, and waits until it has the memory free that the trial needs."""
        from torch import cuda

        assignment = self._assignment
        gpus = pin(assignment.gpus, cuda)
        logger.info("trial %d: on %s", assignment.number, "; ".join(str(gpu) for gpu in gpus))
        self._memory = GpuMemory(gpus[0], cuda, find_nvml())
        if isinstance(factory, PlansMemory):
            needed = factory.needed_bytes(assignment.config, self._market, self._memory.available())
            self._watchdog.stop()  # a trial that waits does not hang
            self._memory.wait_for(needed, assignment.memory_wait)
            self._watchdog.start()

    def _usage(self) -> GpuUsage | None:
        return None if self._memory is None else self._memory.usage()

    def _last_usage(self) -> GpuUsage | None:
        try:
            return self._usage()
        except RuntimeError as error:  # a CUDA context that is lost answers nothing any more
            logger.info("the GPU's memory is unknown: %s", error)
            return None

    def _release(self) -> None:
        self._watchdog.close()
        if self._training is not None:
            self._training.close()
        # What a training leaves on a GPU stays for the next one of its shapes (trainer.warm_learner).
        self._training = self._memory = None


def resolve_factory(factory: str | TrainingFactory) -> TrainingFactory:
    """Imports ``module:name``; anything else is returned as it is."""
    if not isinstance(factory, str):
        return factory
    module, _, name = factory.partition(":")
    return cast(TrainingFactory, getattr(importlib.import_module(module), name))


def _storable(text: str) -> str:
    """What every storage takes: no NUL, no half of a character, and not a whole array."""
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return shown if len(shown) <= LONGEST_LINE else f"{shown[:LONGEST_LINE]}..."


def reason_of(error: BaseException) -> str:
    """Puts an error into one line: the user's errors as they are, others with their type."""
    if (obstacle := full_disk(error)) is not None:
        return f"{obstacle} (node {platform.node()})"
    lines: Sequence[str] = [_storable(line) for line in str(error).strip().splitlines()] or ["no message"]
    if isinstance(error, MemoryError | MemoryPlanError) or "OutOfMemory" in type(error).__name__:
        return f"{OUT_OF_MEMORY}: {lines[0]}"
    if isinstance(error, FoxtuneError):
        return " ".join(line.strip() for line in lines)
    return f"{type(error).__name__}: {lines[0]}"
