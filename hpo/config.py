"""SearchConfig: everything that decides a search, with the trainer's configuration inside it."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hpo.durations import Duration
from trainer.config import TrainerConfig
from trainer.config.sections import Count, NonNegative, Section
from trainer.errors import ConfigError

STUDY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")  # a folder is named after it


class ResourcesConfig(Section):
    """What one trial may use."""

    gpu: NonNegative | None = None  # GPUs per trial; None: 0 with backend reference on the CPU, else 1
    cpu: Count = 1  # CPU cores per trial
    memory_wait: NonNegative = 60.0  # seconds that a trial waits until its GPU has the memory it needs free
    timeout: Duration | None = None  # seconds, or 30m, without a report that end a trial; None: no limit


class RayConfig(Section):
    """Which Ray cluster runs the trials."""

    address: str | None = None  # None: a cluster of its own on this machine, never one found there


class StoppingConfig(Section):
    """Early stopping of trials on the score of an epoch."""

    pruner: Literal["none", "median", "percentile", "hyperband", "patient", "paired"] = "hyperband"
    grace_epochs: Count = 2  # no trial is stopped before this epoch, nor after its last one
    # trials that end before any is stopped, but by paired; None: min(5, max(2, trials // 2))
    startup_trials: Annotated[int, Field(ge=0)] | None = None
    percentile: Annotated[float, Field(gt=0, lt=100)] = 25.0  # percentile: the best that go on, percent
    patience: Count = 3  # patient: after more epochs than these without a new best the median decides
    level: Annotated[float, Field(gt=0, lt=0.5)] = 0.05  # paired: p value below which a trial is stopped


class SearchConfig(Section):
    """A search: how many trials of which space, where they run and where they are kept."""

    study: str = "search"  # name of the study and of its folder
    storage: str | None = None  # Optuna URL or journal:FILE; None: SQLite in the study's folder
    runs: str = "runs"  # folder of all studies' folders
    space: str = "iql_her"
    sampler: Literal["tpe", "gp", "random"] = "tpe"  # who chooses the parameters
    warm_start_trials: Count = 5  # trials of an earlier study that --warm-start tries first
    trials: Count = 8  # finished trials of the study in the end
    concurrent: Count = 1  # trials at a time
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0  # of the sampler; with concurrent 1 repeatable
    time_budget: Duration | None = None  # seconds, or 90s, 30m, 2h
    max_consecutive_bad: Count = 10  # failed trials in a row that end the search
    artifacts: bool = True  # keep every trial's equity picture and end of log for Optuna Dashboard
    max_failures: Annotated[int, Field(ge=0)] = 2  # retries of a trial whose process was killed
    resources: ResourcesConfig = ResourcesConfig()
    ray: RayConfig = RayConfig()
    stopping: StoppingConfig = StoppingConfig()
    trainer: TrainerConfig = TrainerConfig()

    @model_validator(mode="after")
    def _rules_between_keys(self) -> Self:
        if not STUDY_NAME.fullmatch(self.study):
            raise ConfigError(
                "study",
                "must start with a letter or digit and hold at most 100 letters, digits, '_', '.', '-', "
                f"but got {self.study!r}",
            )
        backend: str = self.trainer.training.backend
        if self.resources.gpu == 0 and backend == "fused":
            raise ConfigError(
                "resources.gpu",
                "trial has no GPU assigned: backend fused needs one, but got resources.gpu = 0; "
                "set --gpus-per-trial 1 or --backend reference",
            )
        if self.resources.gpu == 0 and self.trainer.training.device == "cuda":
            raise ConfigError(
                "training.device",
                "needs a GPU, but got 'cuda' with resources.gpu = 0; "
                'set --gpus-per-trial 1 or training.device = "cpu"',
            )
        if (self.resources.gpu or 0) > 1 and self.resources.gpu != int(self.resources.gpu or 0):
            raise ConfigError(
                "resources.gpu", f"above 1 must be a whole number, but got {self.resources.gpu}"
            )
        return self

    @property
    def gpus_per_trial(self) -> float:
        """GPUs of one trial: as given, else 0 with the reference backend off the GPU and 1 otherwise."""
        if self.resources.gpu is not None:
            return self.resources.gpu
        training = self.trainer.training
        return 0.0 if training.backend == "reference" and training.device != "cuda" else 1.0

    @property
    def trial_trainer(self) -> TrainerConfig:
        """The trainer's configuration as a trial runs it: without a GPU it is the reference on the CPU."""
        if self.gpus_per_trial > 0:
            return self.trainer
        return self.trainer.with_overrides({"training.backend": "reference", "training.device": "cpu"})
