"""Job: an open study and all that running it needs. Imports no Ray, which a refusal need not wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import optuna
from optuna.storages import BaseStorage

from hpo.config import SearchConfig
from hpo.gpus.resources import Gpu
from hpo.interruption import Interruption
from hpo.outcome import Say
from trainer.config import SearchSpace

if TYPE_CHECKING:
    from hpo.progress.progress import Display
    from hpo.trial.trainable import TrainingFactory
    from trainer.data.market_data import MarketData

TRAINING = "trainer.warm_trainings:in_this_process"  # what a trial runs unless told otherwise


@dataclass(frozen=True)
class Place:
    """Where the trials run.

    Attributes:
        gpus: What a cluster on this machine offers.
        address: Of the running cluster to join; ``None`` starts one.
    """

    gpus: tuple[Gpu, ...]
    address: str | None


@dataclass(frozen=True)
class Job:
    """What :func:`hpo.driver.drive` runs.

    Attributes:
        search: The effective configuration.
        space: What is searched.
        study: Created or opened; this process is its driver.
        storage: The study's storage.
        market: The data.
        training: What a trial runs.
        place: Where.
        say: Prints a line for the user.
        interruption: Installed signal handlers.
        display: Where progress is shown; ``None``: a table on a terminal, lines elsewhere.
    """

    search: SearchConfig
    space: SearchSpace
    study: optuna.Study
    storage: BaseStorage
    market: MarketData
    training: str | TrainingFactory
    place: Place
    say: Say
    interruption: Interruption
    display: Display | None = None
