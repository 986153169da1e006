"""The agent of a stack of members: acting, and the whole update in the order of the papers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from trainer.config import TrainerConfig
from trainer.finite_guard import FiniteGuard
from trainer.hyperparameters import Hyperparameters
from trainer.layout import StateLayout
from trainer.networks import QNetwork, ValueNetwork
from trainer.optimiser import Optimiser
from trainer.parameter_block import ParameterBlock
from trainer.reference.advantage_policy import greedy_actions, sample_actions
from trainer.reference.c51_loss import c51_loss
from trainer.reference.c51_project import Projection, c51_project
from trainer.reference.c51_support import expected_value, support
from trainer.reference.double_dqn_target import discounted_location, double_dqn_target
from trainer.reference.expectile_loss import expectile_loss
from trainer.reference.philox import Purpose, draw, uniform
from trainer.reference.polyak import polyak
from trainer.transitions import Batch


@dataclass(frozen=True)
class UpdateResult:
    """What one gradient step tells, per member, on the device."""

    td_error: Tensor  # [M, B], mean over branches of KL(target || prediction), nats
    accept: Tensor  # [M] bool, false: something was not finite and the member's step was skipped
    critic_loss: Tensor  # [M], importance-weighted cross-entropy, nats
    value_loss: Tensor  # [M], V_high plus V_low; 0 without IQL
    value_gap: Tensor  # [M], mean of V_high - V_low, reward units; 0 without IQL
    gradient_norm: Tensor  # [M], of the Q network before clipping
    clipped_target_share: Tensor  # [M], share of target mass outside the support


class _ValueStep(NamedTuple):
    loss: Tensor  # [M], V_high plus V_low
    gap: Tensor  # [M]
    norms: Tensor  # [2, M]; [0, M] without IQL


class Agent:
    """Branching C51 with IQL, or with Double DQN where ``agent.use_iql`` is false.

    Nothing here reads device memory on the host; ``guard.check`` does, when the loop calls it.

    Args:
        config: Shape keys (widths, atoms, use_iql); scalars come from ``hyper``.
        layout: State columns and branches.
        hyper: Per-member scalars; overwriting them in place takes effect at the next call.
        keys: [M, 2] int64, (seed, fold) of each member.
        dtype: Of parameters and arithmetic.
        device: Of everything.
    """

    def __init__(
        self,
        config: TrainerConfig,
        layout: StateLayout,
        hyper: Hyperparameters,
        keys: Tensor,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._layout, self._hyper, self._dtype = layout, hyper, dtype
        self._keys = keys.to(device)
        self._num_atoms, self._use_iql = config.agent.num_atoms, config.agent.use_iql
        members = self._members = keys.shape[0]
        self._updates = torch.zeros((), dtype=torch.int64, device=device)
        self._q = QNetwork(config.agent, layout, members, dtype, device)
        self._q_optimiser = Optimiser(self._q.block, hyper)
        self.guard = FiniteGuard(members, device)
        if self._use_iql:
            self._value = ValueNetwork(config.agent, layout, 2 * members, dtype, device)
            self._value_optimiser = Optimiser(self._value.block, hyper)
            self._target_value = ValueNetwork(config.agent, layout, members, dtype, device)
        else:
            self._target_q = QNetwork(config.agent, layout, members, dtype, device)
        self._initialise()

    def _initialise(self) -> None:
        """Draws the weights; slow copies equal what they follow."""
        number = self._q.block.initialise(slice(None), self._keys, 0)
        if self._use_iql:
            high, low = slice(0, self._members), slice(self._members, None)
            number = self._value.block.initialise(high, self._keys, number)
            self._value.block.initialise(low, self._keys, number)
            self._target_value.block.value.copy_(self._value.block.value[high])
        else:
            self._target_q.block.value.copy_(self._q.block.value)

    def reset(self) -> None:
        """Becomes, in place, a new agent of the keys and hyperparameters that its tensors hold now."""
        self._updates.zero_()
        self._q_optimiser.reset()
        if self._use_iql:
            self._value_optimiser.reset()
        self.guard.reset()
        self._initialise()

    @torch.no_grad()
    def act(self, state: Tensor, step: Tensor) -> Tensor:
        """Samples the advantage-weighted policy.

        Args:
            state: [M, E, S].
            step: 0-d int64, environment step of the whole training; decides the random numbers.

        Returns:
            [M, E, K] int64.
        """
        lanes, branches = state.shape[1], self._layout.num_branches
        q = self._q.expected(state, self._atoms())
        baseline = self._value.detached_values(state) if self._use_iql else None
        lane = torch.arange(lanes * branches, device=state.device)
        words = draw(self._keys, Purpose.ACTION, step, lane)[..., 0]
        draws = uniform(words, self._dtype).view(-1, lanes, branches)
        return sample_actions(
            q, baseline, self._hyper.inverse_temperature, draws, self._layout.actions_per_branch
        )

    @torch.no_grad()
    def greedy(self, state: Tensor) -> Tensor:
        """Returns the best action [M, E, K] int64 of every branch on ``state`` [M, E, S]."""
        return greedy_actions(self._q.expected(state, self._atoms()), self._layout.actions_per_branch)

    @torch.no_grad()
    def update(self, batch: Batch) -> UpdateResult:
        """Makes one gradient step of every member.

        Args:
            batch: B rows per member; ``weight`` scales the critic's loss alone.

        Returns:
            The step's figures; nothing is read back to the host.
        """
        projection = self._target(batch)
        logits = self._q.chosen_logits(batch.state, batch.action)
        critic = c51_loss(logits.detach(), projection.target, batch.weight)
        value = self._value_gradient(batch.state, critic.probs)
        self._q.backward(logits, critic.gradient)
        norms = self._q_optimiser.norms()  # [1, M]
        every_norm = torch.cat([norms, value.norms]).T
        accept = self.guard.judge((critic.td_error, critic.loss, value.loss, every_norm), self._updates)
        self._q_optimiser.step(norms, accept)
        if self._use_iql:
            self._value_optimiser.step(value.norms, accept)
        self._follow(accept)
        self._updates += 1
        return UpdateResult(
            critic.td_error, accept, critic.loss, value.loss, value.gap, norms[0], projection.clipped_share
        )

    def _target(self, batch: Batch) -> Projection:
        hyper = self._hyper
        if self._use_iql:  # the point r + gamma V_target(s')
            places = self._target_value.detached_values(batch.next_state)[..., None]
            probs = torch.ones_like(places)
        else:
            atoms = self._atoms()
            best = greedy_actions(self._q.expected(batch.next_state, atoms), self._layout.actions_per_branch)
            probs = double_dqn_target(self._target_q.target_logits(batch.next_state, best))
            places = atoms[:, None, :]
        location = discounted_location(batch.reward, batch.terminated, hyper.gamma, places)
        return c51_project(probs, location, hyper.v_min, hyper.v_max, self._num_atoms)

    def _value_gradient(self, state: Tensor, probs: Tensor) -> _ValueStep:
        """Backward of V_high and V_low towards E[Q] of ``probs`` [M, B, K, Z], a constant."""
        if not self._use_iql:
            zero = torch.zeros_like(self._hyper.gamma)
            return _ValueStep(zero, zero, probs.new_zeros((0, self._members)))
        quantity = expected_value(probs, self._atoms()).mean(2)
        output = self._value.values(state)  # [2M, B]
        values = output.detach().view(2, self._members, -1)
        tau = self._hyper.expectile
        fit = expectile_loss(quantity, values, torch.stack([tau, 1.0 - tau]))
        self._value.backward(output, fit.gradient.view_as(output))
        return _ValueStep(
            fit.loss[0] + fit.loss[1], (values[0] - values[1]).mean(1), self._value_optimiser.norms()
        )

    def _follow(self, accept: Tensor) -> None:
        tau = torch.where(accept, self._hyper.polyak_tau, 0.0)
        if self._use_iql:
            polyak(self._target_value.block.value, self._value.block.value[: self._members], tau)
        else:
            polyak(self._target_q.block.value, self._q.block.value, tau)

    def _atoms(self) -> Tensor:
        return support(self._hyper.v_min, self._hyper.v_max, self._num_atoms)

    def weights_state(self) -> dict[str, Tensor]:
        """Returns copies of the online weights: enough to act and to evaluate."""
        return {name: block.value.clone() for name, block in self._online().items()}

    def load_weights_state(self, state: dict[str, Tensor]) -> None:
        """Restores the online weights in place."""
        for name, block in self._online().items():
            block.value.copy_(state[name])

    def state_dict(self) -> dict[str, Tensor]:
        """Returns copies of everything that a resumed training needs to go on bit for bit."""
        return {name: tensor.clone() for name, tensor in self._persistent().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restores everything in place."""
        for name, tensor in self._persistent().items():
            tensor.copy_(state[name])

    def _online(self) -> dict[str, ParameterBlock]:
        return {"q": self._q.block, "value": self._value.block} if self._use_iql else {"q": self._q.block}

    def _persistent(self) -> dict[str, Tensor]:
        target = self._target_value if self._use_iql else self._target_q
        tensors = {"updates": self._updates, "target": target.block.value}
        optimisers = {"q": self._q_optimiser}
        if self._use_iql:
            optimisers["value"] = self._value_optimiser
        for name, optimiser in optimisers.items():
            tensors[name] = optimiser.block.value
            for part, moment in optimiser.state._asdict().items():
                tensors[f"{name}.{part}"] = moment
        tensors |= {f"guard.{name}": tensor for name, tensor in self.guard.tensors().items()}
        return tensors
