"""FusedMarketLearner: collection, gradient steps and evaluation of a market, all on the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trainer.config import TrainerConfig
from trainer.evaluation import MarketEvaluation
from trainer.fused.collector import CollectionCounters, FusedCollector
from trainer.fused.evaluation import FusedEvaluation
from trainer.fused.steps import FusedSteps
from trainer.hyperparameters import Hyperparameters
from trainer.market_environment import market_layout
from trainer.market_tables import MarketTables


class FusedMarketLearner:
    """What :class:`trainer.market_learner.MarketLearner` asks for, as captured CUDA graphs.

    Args:
        config: The effective configuration.
        tables: Float32, on the device.
        hyper: Per-member scalars.
        keys: [M, 2] int64 Philox keys (seed, fold).
        device: The CUDA device.
    """

    def __init__(
        self,
        config: TrainerConfig,
        tables: MarketTables,
        hyper: Hyperparameters,
        keys: Tensor,
        device: torch.device,
    ) -> None:
        keys = keys.to(device)
        self._hyper, self._keys = hyper, keys
        layout = market_layout(config, tables.table.features.shape[1])
        precision, graphed = config.training.precision, config.training.cuda_graph
        self._steps = FusedSteps(config, layout, tables.table, hyper, keys, device)
        agent = self._steps.agent
        self.guard, self.means = agent.guard, agent.means
        counter = torch.zeros((), dtype=torch.int64, device=device)
        self._counters = CollectionCounters(steps=counter, acted=counter.clone())
        self._collector = FusedCollector(
            tables,
            config,
            hyper,
            keys,
            agent.networks,
            self._steps.replay,
            self._counters,
            precision,
            graphed=graphed,
        )
        self._evaluation = FusedEvaluation(tables, config, hyper, agent.networks, precision, graphed=graphed)

    def reset(self, hyper: Hyperparameters, keys: Tensor) -> None:
        """Becomes, in place, what a new learner of these values would be; captured graphs stay valid."""
        self._hyper.copy_(hyper)
        self._keys.copy_(keys)
        self._steps.reset()
        self._counters.steps.zero_()
        self._counters.acted.zero_()
        self._collector.reset()

    def collect(self) -> None:
        """Collects E lanes of L transitions per member."""
        self._collector.collect()

    def learn(self, updates: int) -> None:
        """Makes gradient steps; raises NonFiniteError past the limit of skipped steps."""
        self._steps.learn(updates)

    def evaluate(self) -> MarketEvaluation:
        """Walks every member's test window greedily."""
        return self._evaluation.evaluate()

    def moments(self) -> tuple[float, float]:
        """Mean A and V of the differential Sharpe ratio after the last collection."""
        return self._collector.moments()

    def weights_state(self) -> dict[str, Tensor]:
        """Copies of the online weights in the reference's layout."""
        return self._steps.agent.weights_state()

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on, in the reference's names and layout."""
        rest = {"environment": {"steps": self._counters.steps}, "acted": self._counters.acted}
        return self._steps.state_dict() | rest

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores :meth:`state_dict`, in place."""
        self._steps.load_state_dict(state)
        self._counters.steps.copy_(state["environment"]["steps"])
        self._counters.acted.copy_(state["acted"])
