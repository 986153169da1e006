"""FusedAgent: the agent of :mod:`trainer.agent` as CUDA kernels and batched products, ready for capture."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from trainer.config import TrainerConfig
from trainer.finite_guard import FiniteGuard
from trainer.fused.networks import SLOPE_STREAM, VALUE_STREAM, FusedNetworks
from trainer.fused.parameters import NetworkParameters
from trainer.fused.precision import Precision, activation_dtype, matmul_precision
from trainer.fused.step_buffers import StepBuffers
from trainer.fused.step_outputs import losses, q_gradients, q_layers, sampled, value_gradients, value_layers
from trainer.fused.workspaces import QSlopes, QWorkspace, VSlopes, VWorkspace
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.accept_step import StepVerdict, accept_step
from trainer.kernels.adamw_step import adamw_step
from trainer.kernels.c51_double_dqn_step import c51_double_dqn_step
from trainer.kernels.c51_iql_step import RowTerms, c51_iql_step
from trainer.kernels.gradient_norm import gradient_norm, pieces_of_member
from trainer.layout import StateLayout
from trainer.learning_means import LearningMeans
from trainer.phases import phase
from trainer.post_mortem import Output
from trainer.reference.advantage_policy import greedy_actions, sample_actions
from trainer.reference.c51_support import expected_value, support
from trainer.reference.dueling_logits import dueling_logits
from trainer.reference.philox import Purpose, draw, uniform


class FusedAgent:
    """Branching C51 with IQL, or with Double DQN, of M members.

    Args:
        config: Shape keys; scalars come from ``hyper``.
        layout: State columns and branches.
        hyper: Per-member float32 scalars; overwriting them in place takes effect at the next step.
        keys: [M, 2] int64, (seed, fold) of each member.
        device: A CUDA device.
        precision: Of the operands of matrix products.

    Attributes:
        networks: Parameters and forward passes, for kernels that act.
        guard: Skipped steps.
        means: Running means of accepted steps.
        verdict: What the last step did.
    """

    def __init__(
        self,
        config: TrainerConfig,
        layout: StateLayout,
        hyper: Hyperparameters,
        keys: Tensor,
        device: torch.device,
        precision: Precision,
    ) -> None:
        members, rows = len(keys), config.agent.batch_size
        self.precision, self.act_dtype = precision, activation_dtype(precision)
        self._layout, self._hyper, self._keys, self._members = layout, hyper, keys.to(device), members
        self._use_iql = config.agent.use_iql
        self.networks = FusedNetworks(config.agent, layout, keys, self.act_dtype, device)
        self.guard = FiniteGuard(members, device)
        self.means = LearningMeans(members, torch.float32, device)
        self.verdict = StepVerdict.allocate(members, 3 if self._use_iql else 1, device)
        shapes, kind = self.networks.shapes, (self.act_dtype, device)
        self._q = QWorkspace.allocate(shapes, members, rows, *kind)
        self._q_slopes = QSlopes.allocate(shapes, members, rows, *kind)
        self._terms = RowTerms.allocate(members, rows, device)
        if self._use_iql:
            self._v = VWorkspace.allocate(shapes, 3 * members, rows, *kind)
            self._v_slopes = VSlopes.allocate(shapes, 2 * members, rows, *kind)
        else:
            self._next_q = QWorkspace.allocate(shapes, members, rows, *kind)
            self._target_q = QWorkspace.allocate(shapes, members, rows, *kind)
        value = self.networks.value
        self._widths = self.networks.q.block.width, 0 if value is None else value.block.width
        self._part = torch.zeros((members, pieces_of_member(*self._widths)), device=device)
        self._acting: dict[int, _Acting] = {}

    def reset(self) -> None:
        """Becomes, in place, a new agent of the keys and hyperparameters that its tensors hold now."""
        for kind in self._kinds().values():
            kind.first.zero_()
            kind.second.zero_()
        self.networks.initialise(self._keys)
        self.verdict.adam_step.zero_()
        self.verdict.updates.zero_()
        self.guard.reset()
        self.means.reset()

    @torch.no_grad()
    def update(self, buffers: StepBuffers) -> None:
        """Makes one gradient step of every member; allocates nothing and reads nothing back.

        Args:
            buffers: The batch; ``td_error`` and ``accept`` are written.
        """
        with matmul_precision(self.precision):
            if self._use_iql:
                self._iql_gradients(buffers)
            else:
                self._double_dqn_gradients(buffers)
        with phase("optimiser"):
            self._optimise(buffers)

    def _optimise(self, buffers: StepBuffers) -> None:
        networks, scalars = self.networks, self.verdict.scalars
        gradient_norm(
            networks.q.gradient, None if networks.value is None else networks.value.gradient, self._part
        )
        accept_step(
            self._part,
            buffers.td_error,
            self._terms.values,
            self._hyper,
            buffers.accept,
            self.verdict,
            self.guard,
            self.means,
            self._widths,
        )
        if networks.value is not None:
            with networks.streams.fork(VALUE_STREAM):
                adamw_step(networks.value, scalars[1:])
        adamw_step(networks.q, scalars[:1])
        networks.streams.join(VALUE_STREAM)

    def _iql_gradients(self, buffers: StepBuffers) -> None:
        networks, states = self.networks, buffers.state
        with phase("forward"):
            with networks.streams.fork(VALUE_STREAM):
                networks.v_forward(buffers.value_states(), self._v)
            networks.q_forward(states[0], self._q)
            networks.streams.join(VALUE_STREAM)
        with phase("loss"):
            slopes = self._q_slopes, self._v_slopes, self._terms
            c51_iql_step(networks, self._q, self._v, buffers, self._hyper, *slopes)
        with phase("backward"):
            with networks.streams.fork(VALUE_STREAM):
                networks.v_backward(states[:2].flatten(0, 1), self._v, self._v_slopes)
            networks.q_backward(states[0], self._q, self._q_slopes)
            networks.streams.join(VALUE_STREAM)

    def _double_dqn_gradients(self, buffers: StepBuffers) -> None:
        networks, states = self.networks, buffers.state
        with phase("forward"):
            with networks.streams.fork(VALUE_STREAM):
                networks.q_forward(states[2], self._next_q)
            with networks.streams.fork(SLOPE_STREAM):
                networks.q_forward(states[2], self._target_q, target=True)
            networks.q_forward(states[0], self._q)
            networks.streams.join(VALUE_STREAM, SLOPE_STREAM)
        with phase("loss"):
            forward = self._q, self._next_q, self._target_q
            c51_double_dqn_step(networks, *forward, buffers, self._hyper, self._q_slopes, self._terms)
        with phase("backward"):
            networks.q_backward(states[0], self._q, self._q_slopes)

    def outputs(self, buffers: StepBuffers) -> Iterator[Output]:
        """Yields what the last step wrote, in the order of its launches.

        Nothing overwrites a step's values before the next step, so a refused one can be examined.

        Args:
            buffers: The batch of the last step.
        """
        value, members = self.networks.value, self._members
        yield from sampled(buffers)
        if value is not None:
            yield from value_layers(self._v, members)
        else:
            yield from q_layers("q network on s'", self._next_q)
            yield from q_layers("target network on s'", self._target_q)
        yield from q_layers("q network", self._q)
        loss = "c51_double_dqn_step" if value is None else "c51_iql_step"
        yield from losses(loss, buffers, self._terms, self._q_slopes)
        if value is not None:
            yield from value_gradients(value, self._v_slopes, members)
        yield from q_gradients(self.networks.q, self._q_slopes, members)
        yield Output("gradient_norm", self._part)
        yield Output("accept_step means and norm", self.verdict.report.T)

    @torch.no_grad()
    def act(self, state: Tensor, step: Tensor) -> Tensor:
        """Samples the advantage-weighted policy.

        Args:
            state: [M, E, S] float32.
            step: 0-d int64, environment step of the whole training; decides the random numbers.

        Returns:
            [M, E, K] int64.
        """
        lanes, branches = state.shape[1], self._layout.num_branches
        acting = self._forward(state)
        baseline = acting.baseline(self.networks) if self._use_iql else None
        lane = torch.arange(lanes * branches, device=state.device)
        words = draw(self._keys, Purpose.ACTION, step, lane)[..., 0]
        draws = uniform(words, torch.float32).view(-1, lanes, branches)
        quantity = acting.expected(self.networks, self._hyper)
        actions = self._layout.actions_per_branch
        return sample_actions(quantity, baseline, self._hyper.inverse_temperature, draws, actions)

    @torch.no_grad()
    def greedy(self, state: Tensor) -> Tensor:
        """Returns the best action [M, E, K] int64 of every branch on ``state`` [M, E, S]."""
        quantity = self._forward(state).expected(self.networks, self._hyper)
        return greedy_actions(quantity, self._layout.actions_per_branch)

    def _forward(self, state: Tensor) -> _Acting:
        rows = state.shape[1]
        if rows not in self._acting:
            self._acting[rows] = _Acting(self.networks, self._members, rows, self.act_dtype, state.device)
        acting = self._acting[rows]
        acting.state[..., : state.shape[2]].copy_(state)
        with matmul_precision(self.precision):
            self.networks.q_forward(acting.state, acting.q)
            if self._use_iql:
                self.networks.v_forward(acting.state, acting.v, "high")
        return acting

    def weights_state(self) -> dict[str, Tensor]:
        """Returns copies of the online weights in the reference's layout."""
        return {name: kind.export(kind.value[: kind.online]) for name, kind in self._kinds().items()}

    def load_weights_state(self, state: dict[str, Tensor]) -> None:
        """Restores the online weights in place."""
        for name, kind in self._kinds().items():
            kind.load(slice(0, kind.online), state[name])

    def state_dict(self) -> dict[str, Tensor]:
        """Returns copies of everything that a resumed training needs, in the reference's names and layout."""
        state = self.weights_state()
        state["updates"] = self.verdict.updates[0].clone()
        for name, kind in self._kinds().items():
            shape = kind.online // self._members, self._members
            for part, moment in (("first_moment", kind.first), ("second_moment", kind.second)):
                state[f"{name}.{part}"] = kind.export(moment).view(*shape, -1)
            state[f"{name}.step"] = self.verdict.adam_step.expand(shape).clone()
        slow = self._followed()
        state["target"] = slow.export(slow.value[slow.online :])
        return state | {f"guard.{name}": counter.clone() for name, counter in self.guard.tensors().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restores everything in place, from a state of this class or of the reference's agent."""
        self.load_weights_state(state)
        self.verdict.updates.copy_(state["updates"].expand(self._members))
        self.verdict.adam_step.copy_(state["q.step"][0])
        for name, kind in self._kinds().items():
            kind.load_moment(kind.first, state[f"{name}.first_moment"])
            kind.load_moment(kind.second, state[f"{name}.second_moment"])
        slow = self._followed()
        slow.load(slice(slow.online, None), state["target"])
        for name, counter in self.guard.tensors().items():
            counter.copy_(state[f"guard.{name}"])

    def _kinds(self) -> dict[str, NetworkParameters]:
        value = self.networks.value
        return {"q": self.networks.q} | ({} if value is None else {"value": value})

    def _followed(self) -> NetworkParameters:
        """The network kind that has slow copies."""
        return self.networks.q if self.networks.value is None else self.networks.value


class _Acting:
    """Static buffers to act on R states per member, in plain PyTorch behind the products."""

    def __init__(
        self, networks: FusedNetworks, members: int, rows: int, act_dtype: torch.dtype, device: torch.device
    ) -> None:
        shapes = networks.shapes
        self.state = torch.zeros((members, rows, shapes.state_pitch), dtype=act_dtype, device=device)
        self.state[..., shapes.state_dim] = 1.0
        self.q = QWorkspace.allocate(shapes, members, rows, act_dtype, device)
        self.v = VWorkspace.allocate(shapes, members, rows, act_dtype, device)

    def expected(self, networks: FusedNetworks, hyper: Hyperparameters) -> Tensor:
        """Returns E[Q_k(s, a)] [M, R, A]."""
        shapes = networks.shapes
        head = self.q.logits + networks.output_bias[:, None]
        head = head.view(*head.shape[:2], shapes.head_rows, shapes.atom_pitch)[..., : shapes.num_atoms]
        probs = torch.softmax(dueling_logits(head, shapes.actions_per_branch), -1)
        return expected_value(probs, support(hyper.v_min, hyper.v_max, shapes.num_atoms))

    def baseline(self, networks: FusedNetworks) -> Tensor:
        """Returns V_high [M, R]."""
        hidden = self.v.hidden[-1].float()
        return (hidden * networks.value_output[: len(hidden), None]).sum(2)
