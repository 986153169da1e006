"""What hindsight, IQL and Double DQN cost in the captured step, in microseconds.

Every figure is the difference of two graphs that are replayed in turns on the same stack of members:

- hindsight: one graph, ``her_size`` B / 2 against 0 in device memory;
- IQL: the step against the same step without V_high, V_low and V_target: no pass through them, no second copy
  of s, no expectile losses, no norm and no optimiser of theirs; the bootstrap is read from a buffer;
- the passes of Double DQN: the step with two more passes of Q on s', next to each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer.benchmarks.fused_step import LAYOUT, STEPS_PER_GRAPH, FusedStep, replay_of
from trainer.benchmarks.markdown import markdown_table
from trainer.benchmarks.step_shapes import HER_RATIO, Shape
from trainer.benchmarks.timing import microseconds_in_turns
from trainer.finite_guard import FiniteGuard
from trainer.fused.precision import Precision, activation_dtype, matmul_precision
from trainer.fused.replay import FusedReplay
from trainer.fused.side_streams import SideStreams
from trainer.fused.step_buffers import StepBuffers
from trainer.fused.workspaces import QSlopes, QWorkspace
from trainer.kernels.accept_step import StepVerdict, accept_step
from trainer.kernels.adamw_step import adamw_step
from trainer.kernels.c51_iql_step import RowTerms, c51_given_bootstrap
from trainer.kernels.gradient_norm import gradient_norm, pieces_of_member
from trainer.layout import StateLayout
from trainer.learning_means import LearningMeans

SHAPES = (Shape(1, 256, 2**17), Shape(15, 256, 2**17), Shape(1, 16384, 2**17))
PRECISION: Precision = "bf16"
NEXT_STATE = 2  # plane of StepBuffers.state
HEAD = (
    "M, B",
    "step, us",
    "hindsight, us",
    "IQL, us",
    "IQL / step",
    "IQL / step without it",
    "passes of Double DQN, us",
    "Double DQN instead of IQL: step, us",
    "hindsight's bytes, KiB a member",
)


class CriticStep:
    """The step of a stack without its value networks: the bootstrap is read from a buffer.

    Args:
        stack: Gives networks, rings and batch; its value networks stay as they are.
    """

    def __init__(self, stack: FusedStep) -> None:
        buffers, networks = stack.buffers, stack.agent.networks
        members, rows, device = buffers.members, buffers.batch_size, buffers.state.device
        kind = stack.agent.act_dtype, device
        self._stack = stack
        self._replay = FusedReplay(stack.replay.replay, stack.replay.table, second_state=False)
        self.bootstrap = torch.zeros((members, rows), device=device)
        self._q = QWorkspace.allocate(networks.shapes, members, rows, *kind)
        self._slopes = QSlopes.allocate(networks.shapes, members, rows, *kind)
        self._terms = RowTerms.allocate(members, rows, device)
        self._widths = networks.q.block.width, 0
        self._part = torch.zeros((members, pieces_of_member(*self._widths)), device=device)
        self._guard = FiniteGuard(members, device)
        self._means = LearningMeans(members, torch.float32, device)
        self.verdict = StepVerdict.allocate(members, 1, device)

    def step(self) -> None:
        """Sample, relabel, learn the critic, write priorities."""
        stack, buffers = self._stack, self._stack.buffers
        self._replay.sample_into(buffers, stack.updated, stack.keys, stack.hyper)
        networks, states = stack.agent.networks, buffers.state
        with matmul_precision(stack.agent.precision):
            networks.q_forward(states[0], self._q)
            given = buffers, stack.hyper, self._slopes, self._terms
            c51_given_bootstrap(networks, self._q, self.bootstrap, *given)
            networks.q_backward(states[0], self._q, self._slopes)
        gradient_norm(networks.q.gradient, None, self._part)
        accept_step(
            self._part,
            buffers.td_error,
            self._terms.values,
            stack.hyper,
            buffers.accept,
            self.verdict,
            self._guard,
            self._means,
            self._widths,
        )
        adamw_step(networks.q, self.verdict.scalars)
        self._replay.write_priorities(buffers, stack.hyper)
        stack.updated += 1


class BothPassesStep:
    """The step of a stack with the two passes of Double DQN on s' beside it, their results unused."""

    def __init__(self, stack: FusedStep) -> None:
        buffers, agent = stack.buffers, stack.agent
        size = buffers.members, buffers.batch_size
        self._stack = stack
        self._passes = [
            QWorkspace.allocate(agent.networks.shapes, *size, agent.act_dtype, buffers.state.device)
            for _ in ("Q", "slow copy")
        ]
        self._streams = SideStreams(len(self._passes), buffers.state.device)

    def step(self) -> None:
        """Sample, relabel, run Q on s' twice at the same time, learn, write priorities."""
        stack, buffers = self._stack, self._stack.buffers
        stack.replay.sample_into(buffers, stack.updated, stack.keys, stack.hyper)
        with matmul_precision(stack.agent.precision):
            for number, workspace in enumerate(self._passes):
                with self._streams.fork(number):
                    stack.agent.networks.q_forward(buffers.state[NEXT_STATE], workspace)
        self._streams.join(*range(len(self._passes)))
        stack.agent.update(buffers)
        stack.replay.write_priorities(buffers, stack.hyper)
        stack.updated += 1


@dataclass(frozen=True)
class StepParts:
    """Microseconds of one step of the whole stack under each choice.

    Attributes:
        whole: IQL, ``her_ratio`` .5.
        without_hindsight: The same graph with ``her_ratio`` 0.
        without_values: The critic alone, its bootstrap read from a buffer.
        with_passes: The whole, and the passes of Double DQN.
        double_dqn: The agent without IQL, whose targets Double DQN makes.
    """

    whole: float
    without_hindsight: float
    without_values: float
    with_passes: float
    double_dqn: float

    def cells(self) -> list[str]:
        """Differences as the table shows them."""
        values = self.whole - self.without_values
        return [
            f"{self.whole:.1f}",
            f"{self.whole - self.without_hindsight:+.1f}",
            f"{values:+.1f}",
            f"{100 * values / self.whole:.0f}%",
            f"{100 * values / self.without_values:.0f}%",
            f"{self.with_passes - self.whole:+.1f}",
            f"{self.double_dqn:.1f}",
        ]


def measure(shape: Shape, precision: str) -> StepParts:
    """Replays the five graphs in turns."""
    stack = FusedStep(shape, precision)
    double_dqn = FusedStep(shape, precision, use_iql=False)
    steps = stack.step, CriticStep(stack).step, BothPassesStep(stack).step, double_dqn.step
    whole, critic, both, double = (replay_of(step) for step in steps)

    def relabelling(ratio: float) -> None:
        stack.hyper.her_size.fill_(int(shape.batch_size * ratio))

    turns = (
        (lambda: relabelling(HER_RATIO), whole),
        (lambda: relabelling(0.0), whole),
        (lambda: relabelling(HER_RATIO), critic),
        (lambda: relabelling(HER_RATIO), both),
        (lambda: None, double),
    )
    return StepParts(*(time / STEPS_PER_GRAPH for time in microseconds_in_turns(turns)))


def her_staging_bytes(buffers: StepBuffers, layout: StateLayout) -> int:
    """Bytes per member of all that relabelling writes, in the batch itself: it has no buffers of its own.

    Donor, reward and weight of a row, and the goal's columns of s, of s again and of s'.
    """
    scalars = sum(each[0].nbytes for each in (buffers.donor, buffers.reward, buffers.weight))
    return scalars + buffers.state[:, 0, :, : layout.goal_dim].numel() * buffers.state.element_size()


def staging_of(shape: Shape) -> int:
    """Bytes per member of :func:`her_staging_bytes` for the layout that is timed."""
    buffers = StepBuffers.allocate(
        shape.members, shape.batch_size, LAYOUT, activation_dtype(PRECISION), torch.device("meta")
    )
    return her_staging_bytes(buffers, LAYOUT)


def table() -> str:
    """Measures every shape."""
    rows = []
    for shape in SHAPES:
        staging = f"{staging_of(shape) / 1024:.1f}"
        rows.append([f"{shape.members}, {shape.batch_size}", *measure(shape, PRECISION).cells(), staging])
        torch.cuda.empty_cache()
    return markdown_table(HEAD, rows)
