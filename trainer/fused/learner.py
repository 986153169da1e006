"""FusedLearner: the learner of :mod:`trainer.learner` with its gradient steps in a CUDA graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trainer.collector import collect
from trainer.config import TrainerConfig
from trainer.environment import Environment
from trainer.fused.agent import FusedAgent
from trainer.fused.replay import FusedReplay
from trainer.fused.step_buffers import StepBuffers
from trainer.graph import GraphedCallable
from trainer.hyperparameters import Hyperparameters
from trainer.replay import ReplayBuffer
from trainer.transitions import Collection

STEPS_PER_REPLAY = 8


class FusedLearner:
    """Collects with any environment on the device and learns with fused, captured steps.

    The graph is captured at the first :meth:`learn`, once something is stored. Hyperparameters are read
    from device memory by every replay, so overwriting them needs no new capture.

    Args:
        environment: M x E lanes on a CUDA device, float32.
        config: Shape keys shared by the stack.
        hyper: Per-member scalars.
        keys: [M, 2] int64 Philox keys (seed, fold).
        device: The CUDA device.
        graph: False launches every kernel one by one, for debugging.
    """

    def __init__(
        self,
        environment: Environment,
        config: TrainerConfig,
        hyper: Hyperparameters,
        keys: Tensor,
        device: torch.device,
        *,
        graph: bool = True,
    ) -> None:
        members, layout = keys.shape[0], environment.layout
        lanes, length = config.environment.episodes, config.environment.episode_length
        self.environment = environment
        self.config = config
        self.hyper = hyper
        self.keys = keys
        self.agent = FusedAgent(config, layout, hyper, keys, device, config.training.precision)
        self.replay = ReplayBuffer(members, config.replay.capacity, layout, torch.float32, device)
        self.fused_replay = FusedReplay(self.replay, environment.table)
        self.buffers = StepBuffers.allocate(
            members, config.agent.batch_size, layout, self.agent.act_dtype, device
        )
        self.collection = Collection.allocate(members, lanes, length, layout, torch.float32, device)
        self.guard, self.means = self.agent.guard, self.agent.means
        self.acted = torch.zeros((), dtype=torch.int64, device=device)
        self.updated = torch.zeros((), dtype=torch.int64, device=device)
        self._graph = graph
        self._steps: dict[int, GraphedCallable] = {}

    def collect(self) -> None:
        """Fills E lanes of L transitions per member with the sampled policy and stores them."""
        collect(self.environment, self._explore, self.collection)
        self.fused_replay.insert(self.collection, self.hyper)

    def learn(self, updates: int) -> None:
        """Makes ``updates`` gradient steps, several per graph replay.

        Raises:
            NonFiniteError: If a member has skipped more steps than the configuration allows.
        """
        training = self.config.training
        left = updates
        while left > 0:
            steps = 1 if training.check_finite or left < STEPS_PER_REPLAY else STEPS_PER_REPLAY
            self._captured(steps).replay()
            left -= steps
            if training.check_finite:
                self.guard.check(training.max_skipped_steps, check_finite=True)
        self.guard.check(training.max_skipped_steps, check_finite=training.check_finite)

    def update(self) -> None:
        """One gradient step of every member: sample, relabel, learn, write priorities."""
        self.fused_replay.sample_into(self.buffers, self.updated, self.keys, self.hyper)
        self.agent.update(self.buffers)
        self.fused_replay.write_priorities(self.buffers, self.hyper)
        self.updated += 1

    def _captured(self, steps: int) -> GraphedCallable:
        if steps not in self._steps:
            before = self._changing_state()

            def run() -> None:
                for _ in range(steps):
                    self.update()

            self._steps[steps] = GraphedCallable(
                run, lambda: self._restore_changing(before), enabled=self._graph
            )
        return self._steps[steps]

    def _changing_state(self) -> dict[str, Any]:
        """Copies of what a gradient step changes; warm-up steps are undone with it."""
        return {
            "agent": self.agent.state_dict(),
            "priority": self.replay.priority.clone(),
            "largest_error": self.replay.largest_error.clone(),
            "updated": self.updated.clone(),
            "sums": self.means.sums.clone(),
            "count": self.means.count.clone(),
        }

    def _restore_changing(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])
        self.replay.priority.copy_(state["priority"])
        self.replay.largest_error.copy_(state["largest_error"])
        self.updated.copy_(state["updated"])
        self.means.sums.copy_(state["sums"])
        self.means.count.copy_(state["count"])

    def _explore(self, state: Tensor) -> Tensor:
        action = self.agent.act(state, self.acted)
        self.acted += 1
        return action

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on, in the reference's names and layout."""
        return {
            "agent": self.agent.state_dict(),
            "replay": self.replay.state_dict(),
            "environment": self.environment.state_dict(),
            "acted": self.acted,
            "updated": self.updated,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores :meth:`state_dict`, in place."""
        self.agent.load_state_dict(state["agent"])
        self.replay.load_state_dict(state["replay"])
        self.environment.load_state_dict(state["environment"])
        self.acted.copy_(state["acted"])
        self.updated.copy_(state["updated"])
