"""MarketLearner: what a training needs of a backend, and the reference that fulfils it on any device."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from trainer.backend import Backend
from trainer.config import TrainerConfig
from trainer.evaluation import MarketEvaluation, evaluate
from trainer.finite_guard import FiniteGuard
from trainer.hyperparameters import Hyperparameters
from trainer.learner import Learner
from trainer.learning_means import LearningMeans
from trainer.market_environment import MarketEnvironment
from trainer.market_tables import MarketTables


class MarketLearner(Protocol):
    """A stack of members on a market: collect, learn, evaluate.

    Attributes:
        guard: Skipped steps.
        means: Running means of the gradient steps since they were last read.
    """

    guard: FiniteGuard
    means: LearningMeans

    def reset(self, hyper: Hyperparameters, keys: Tensor) -> None:
        """Becomes, in place, what a new learner of these values would be, bit for bit.

        Buffers, kernels and captured graphs stay: the values are copied into the tensors that they read.

        Args:
            hyper: [M] each, as at construction.
            keys: [M, 2] int64 Philox keys.
        """

    def collect(self) -> None:
        """Collects E lanes of L transitions per member."""

    def learn(self, updates: int) -> None:
        """Makes gradient steps; raises NonFiniteError past the limit of skipped steps."""

    def evaluate(self) -> MarketEvaluation:
        """Walks every member's test window greedily."""

    def moments(self) -> tuple[float, float]:
        """Mean A and V of the differential Sharpe ratio after the last collection."""

    def weights_state(self) -> dict[str, Tensor]:
        """Copies of the online weights in the reference's layout."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on; of what lies on the CPU, copies."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores :meth:`state_dict`, in place."""


class ReferenceMarketLearner:
    """The PyTorch reference: any device, float32 or float64."""

    def __init__(
        self,
        config: TrainerConfig,
        tables: MarketTables,
        hyper: Hyperparameters,
        keys: Tensor,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        keys = keys.to(device)
        self._config, self._tables, self._hyper, self._keys = config, tables, hyper, keys
        self._environment = MarketEnvironment(tables, config, hyper, keys, dtype, device)
        self._learner = Learner(self._environment, config, hyper, keys, dtype, device)
        self.guard, self.means = self._learner.guard, self._learner.means

    def reset(self, hyper: Hyperparameters, keys: Tensor) -> None:
        """Becomes, in place, what a new learner of these values would be, bit for bit."""
        self._hyper.copy_(hyper)
        self._keys.copy_(keys)
        self._learner.reset()

    def collect(self) -> None:
        """Collects E lanes of L transitions per member."""
        self._learner.collect()

    def learn(self, updates: int) -> None:
        """Makes gradient steps; raises NonFiniteError past the limit of skipped steps."""
        self._learner.learn(updates)

    def evaluate(self) -> MarketEvaluation:
        """Walks every member's test window greedily."""
        return evaluate(self._tables, self._hyper, self._config, self._learner.agent.greedy)

    def moments(self) -> tuple[float, float]:
        """Mean A and V of the differential Sharpe ratio after the last collection."""
        return self._environment.moments()

    def weights_state(self) -> dict[str, Tensor]:
        """Copies of the online weights."""
        return self._learner.agent.weights_state()

    def state_dict(self) -> dict[str, Any]:
        """Returns copies of everything that the next step depends on."""
        return self._learner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores :meth:`state_dict`, in place."""
        self._learner.load_state_dict(state)


def build_market_learner(
    backend: Backend, config: TrainerConfig, tables: MarketTables, hyper: Hyperparameters, keys: Tensor
) -> MarketLearner:
    """Builds the learner of the chosen backend; the fused one is imported only where it runs."""
    if backend.name == "fused":
        from trainer.fused.market_learner import FusedMarketLearner

        return FusedMarketLearner(config, tables, hyper, keys, backend.device)
    return ReferenceMarketLearner(config, tables, hyper, keys, backend.dtype, backend.device)
