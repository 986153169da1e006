"""FusedSteps: gradient steps of the whole stack, several per replay of a CUDA graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from trainer.config import TrainerConfig
from trainer.fused.agent import FusedAgent
from trainer.fused.replay import FusedReplay
from trainer.fused.step_buffers import StepBuffers
from trainer.graph import GraphedCallable
from trainer.hyperparameters import Hyperparameters
from trainer.layout import FeatureTable, StateLayout
from trainer.phases import phase
from trainer.replay import ReplayBuffer


class FusedSteps:
    """Replay, agent and the captured step between them.

    A graph is captured at the first :meth:`learn`, once something is stored. Hyperparameters are read
    from device memory by every replay, so overwriting them needs no new capture.

    Args:
        config: Shape keys shared by the stack.
        layout: State columns and branches.
        table: The market part of the states, None for an environment without one.
        hyper: Per-member scalars.
        keys: [M, 2] int64 Philox keys (seed, fold).
        device: The CUDA device.

    Attributes:
        agent: Networks and optimiser.
        replay: The rings.
        updated: 0-d int64, gradient steps made.
    """

    def __init__(
        self,
        config: TrainerConfig,
        layout: StateLayout,
        table: FeatureTable | None,
        hyper: Hyperparameters,
        keys: Tensor,
        device: torch.device,
    ) -> None:
        self._training, self._hyper, self._keys = config.training, hyper, keys
        self.agent = FusedAgent(config, layout, hyper, keys, device, config.training.precision)
        self.replay = ReplayBuffer(len(keys), config.replay.capacity, layout, torch.float32, device)
        self.fused_replay = FusedReplay(self.replay, table, second_state=config.agent.use_iql)
        self.buffers = StepBuffers.allocate(
            len(keys), config.agent.batch_size, layout, self.agent.act_dtype, device
        )
        self.updated = torch.zeros((), dtype=torch.int64, device=device)
        self._captured: dict[int, GraphedCallable] = {}

    def reset(self) -> None:
        """Becomes new, in place; graphs read the same addresses, so that they go on serving."""
        self.agent.reset()
        self.replay.reset()
        self.updated.zero_()

    def learn(self, updates: int) -> None:
        """Makes ``updates`` gradient steps.

        Raises:
            NonFiniteError: If a member has skipped more steps than the configuration allows; under
                ``training.check_finite`` with the first output of the step that is not finite.
        """
        self.replay.require_items()
        allowed, check = self._training.max_skipped_steps, self._training.check_finite
        for steps in replays(updates, 1 if check else self._training.steps_per_replay):
            self._graph_of(steps).replay()
            if check:
                outputs = self.agent.outputs(self.buffers)
                self.agent.guard.check(allowed, check_finite=True, outputs=outputs)
        self.agent.guard.check(allowed, check_finite=check)

    def update(self) -> None:
        """One gradient step of every member: sample, relabel, learn, write priorities."""
        with phase("sample"):
            self.fused_replay.sample_into(self.buffers, self.updated, self._keys, self._hyper)
        self.agent.update(self.buffers)
        with phase("priorities"):
            self.fused_replay.write_priorities(self.buffers, self._hyper)
        self.updated += 1

    def state_dict(self) -> dict[str, Any]:
        """Agent, replay and step counter, in the reference's names and layout."""
        return {
            "agent": self.agent.state_dict(),
            "replay": self.replay.state_dict(),
            "updated": self.updated,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores :meth:`state_dict`, in place."""
        self.agent.load_state_dict(state["agent"])
        self.replay.load_state_dict(state["replay"])
        self.updated.copy_(state["updated"])

    def _graph_of(self, steps: int) -> GraphedCallable:
        if steps not in self._captured:
            before = self._changing_state()

            def run() -> None:
                for _ in range(steps):
                    self.update()

            self._captured[steps] = GraphedCallable(
                run,
                lambda: self._restore(before),
                enabled=self._training.cuda_graph,
                warm_up=self.update,
            )
        return self._captured[steps]

    def _changing_state(self) -> dict[str, Any]:
        """Copies of what a gradient step changes: the steps that warm a graph up are undone with it."""
        return {
            "agent": self.agent.state_dict(),
            "others": [each.clone() for each in self._others()],
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])
        for live, saved in zip(self._others(), state["others"], strict=True):
            live.copy_(saved)

    def _others(self) -> tuple[Tensor, ...]:
        means = self.agent.means
        return (self.replay.priority, self.replay.largest_error, self.updated, means.sums, means.count)


def replays(updates: int, steps_per_replay: int) -> Iterator[int]:
    """Yields the gradient steps of each replay that together make ``updates``.

    At most two lengths occur, so that at most two graphs are captured: the wanted one, and 1 for the rest.
    """
    whole, rest = divmod(updates, steps_per_replay)
    yield from itertools.repeat(steps_per_replay, whole)
    yield from itertools.repeat(1, rest)
