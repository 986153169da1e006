"""FusedLearner: the learner of :mod:`trainer.learner`, for any environment on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.collector import collect
from trainer.config import TrainerConfig
from trainer.environment import Environment
from trainer.fused.steps import FusedSteps
from trainer.hyperparameters import Hyperparameters
from trainer.transitions import Collection


class FusedLearner:
    """Collects with a PyTorch environment and learns with fused steps.

    Args:
        environment: M x E lanes on a CUDA device, float32.
        config: Shape keys shared by the stack.
        hyper: Per-member scalars.
        keys: [M, 2] int64 Philox keys (seed, fold).
        device: The CUDA device.
    """

    def __init__(
        self,
        environment: Environment,
        config: TrainerConfig,
        hyper: Hyperparameters,
        keys: Tensor,
        device: torch.device,
    ) -> None:
        self.environment, self._hyper = environment, hyper
        self.steps = FusedSteps(config, environment.layout, environment.table, hyper, keys, device)
        self.agent = self.steps.agent
        lanes, length = config.environment.episodes, config.environment.episode_length
        self.collection = Collection.allocate(
            len(keys), lanes, length, environment.layout, torch.float32, device
        )
        self.acted = torch.zeros((), dtype=torch.int64, device=device)

    def collect(self) -> None:
        """Fills E lanes of L transitions per member with the sampled policy and stores them."""
        collect(self.environment, self._explore, self.collection)
        self.steps.fused_replay.insert(self.collection, self._hyper)

    def learn(self, updates: int) -> None:
        """Makes gradient steps; raises NonFiniteError past the limit of skipped steps."""
        self.steps.learn(updates)

    def _explore(self, state: Tensor) -> Tensor:
        action = self.agent.act(state, self.acted)
        self.acted += 1
        return action
