"""Learner: collect experience and learn from it, for any environment and any stack of members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from trainer.agent import Agent
from trainer.collector import collect
from trainer.config import TrainerConfig
from trainer.environment import Environment
from trainer.hindsight import relabel
from trainer.hyperparameters import Hyperparameters
from trainer.learning_means import LearningMeans
from trainer.post_mortem import Output
from trainer.replay import ReplayBuffer
from trainer.transitions import Batch, Collection


class Learner:
    """The training of M members behind two calls, :meth:`collect` and :meth:`learn`.

    Args:
        environment: M x E lanes.
        config: Shape keys (batch size, capacity, widths ...) shared by the stack.
        hyper: Per-member scalars, [M] each; they may differ between members.
        keys: [M, 2] int64 Philox keys (seed, fold).
        dtype: Floating type of states, rewards and networks.
        device: Where every buffer lives.
    """

    def __init__(
        self,
        environment: Environment,
        config: TrainerConfig,
        hyper: Hyperparameters,
        keys: Tensor,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.environment = environment
        self.config = config
        self.hyper = hyper
        self.keys = keys
        members = keys.shape[0]
        layout = environment.layout
        lanes, length = config.environment.episodes, config.environment.episode_length
        self.agent = Agent(config, layout, hyper, keys, dtype, device)
        self.replay = ReplayBuffer(members, config.replay.capacity, layout, dtype, device)
        self.collection = Collection.allocate(members, lanes, length, layout, dtype, device)
        self.guard = self.agent.guard
        self.means = LearningMeans(members, dtype, device)
        self.acted = torch.zeros((), dtype=torch.int64, device=device)
        self.updated = torch.zeros((), dtype=torch.int64, device=device)
        self._last_batch: Batch | None = None  # kept under training.check_finite alone

    def reset(self) -> None:
        """Becomes, in place, a new learner of the keys and hyperparameters that its tensors hold now."""
        self.environment.reset()
        self.agent.reset()
        self.replay.reset()
        self.means.reset()
        self.acted.zero_()
        self.updated.zero_()
        self._last_batch = None

    def collect(self) -> None:
        """Fills E lanes of L transitions per member with the sampled policy and stores them."""
        collect(self.environment, self._explore, self.collection)
        self.replay.insert(self.collection, self.hyper)

    def learn(self, updates: int) -> None:
        """Makes ``updates`` gradient steps.

        Raises:
            NonFiniteError: If a member has skipped more steps than the configuration allows; under
                ``training.check_finite`` with what of the step's inputs was not finite.
        """
        training = self.config.training
        for _ in range(updates):
            self.update()
            if training.check_finite:
                self.guard.check(training.max_skipped_steps, check_finite=True, outputs=self._inputs())
        self.guard.check(training.max_skipped_steps, check_finite=training.check_finite)

    def update(self) -> None:
        """One gradient step of every member: sample, relabel, learn, write priorities."""
        size = self.config.agent.batch_size
        sample = self.replay.sample(size, self.updated, self.keys, self.hyper)
        batch = self.replay.gather(sample, self.environment.table)
        batch = relabel(batch, self.replay, self.updated, self.keys, self.hyper)
        result = self.agent.update(batch)
        self.replay.write_priorities(
            batch.index, result.td_error, self.hyper.her_size, result.accept, self.hyper
        )
        self.means.add(result)
        self.updated += 1
        if self.config.training.check_finite:
            self._last_batch = batch

    def _explore(self, state: Tensor) -> Tensor:
        action = self.agent.act(state, self.acted)
        self.acted += 1
        return action

    def _inputs(self) -> Iterator[Output]:
        """What the last step read: the batch, then the networks, which a refused step leaves as they were."""
        if self._last_batch is not None:
            for name in ("state", "next_state", "reward", "weight"):
                yield Output(f"sampled {name}", getattr(self._last_batch, name))
        state = self.agent.state_dict()
        for name in ("value", "q", "target"):
            if name in state:
                networks = state[name].view(-1, len(self.keys), state[name].shape[1])
                yield Output(f"parameters of {name}", networks.transpose(0, 1))

    def state_dict(self) -> dict[str, Any]:
        """Returns copies of everything that the next step depends on."""
        return {
            "agent": self.agent.state_dict(),
            "replay": self.replay.state_dict(),
            "environment": self.environment.state_dict(),
            "acted": self.acted.clone(),
            "updated": self.updated.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores :meth:`state_dict`, in place."""
        self.agent.load_state_dict(state["agent"])
        self.replay.load_state_dict(state["replay"])
        self.environment.load_state_dict(state["environment"])
        self.acted.copy_(state["acted"])
        self.updated.copy_(state["updated"])
