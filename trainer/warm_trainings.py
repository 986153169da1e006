"""WarmTrainings: trainings of one process, one after another, that hand on their learner."""

from __future__ import annotations

from pathlib import Path

from trainer.config import TrainerConfig
from trainer.data.market_data import MarketData
from trainer.planned_training import planned_bytes
from trainer.training import Training
from trainer.warm_learner import LearnerCache


class WarmTrainings:
    """Builds a training at each call; the one before it must be over."""

    def __init__(self) -> None:
        self._learners = LearnerCache()

    def __call__(
        self, config: TrainerConfig, market: MarketData, directory: Path, *, resume: bool = False
    ) -> Training:
        """Builds a training, or continues it from the directory's checkpoint.

        Args:
            config: The effective configuration.
            market: Bars and features.
            directory: Where checkpoint, weights and evaluation go.
            resume: Continue from the directory's checkpoint, bit for bit.
        """
        return Training(config, market, directory, resume=resume, learners=self._learners)

    def needed_bytes(self, config: TrainerConfig, market: MarketData, available: int) -> int:
        """Returns the bytes that a training on a GPU needs; see :func:`planned_bytes`."""
        return planned_bytes(config, market, available)


in_this_process = WarmTrainings()  # one per process: the trial that comes next is another's call
