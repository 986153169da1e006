"""Agents of both backends on one batch, for the tests of the fused step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from trainer.agent import Agent
from trainer.config import TrainerConfig
from trainer.fused.agent import FusedAgent
from trainer.fused.step_buffers import StepBuffers
from trainer.hyperparameters import Hyperparameters
from trainer.layout import StateLayout
from trainer.transitions import Batch

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Twins:
    """The same members in both backends; the reference in float64 on the CPU."""

    config: TrainerConfig
    layout: StateLayout
    reference: Agent
    fused: FusedAgent
    buffers: StepBuffers
    hyper: Hyperparameters  # the fused agent's

    def batch(self, seed: int) -> Batch:
        """Fills the step buffers at random and returns the same rows for the reference."""
        buffers, state_dim = self.buffers, self.layout.state_dim
        members, rows = buffers.members, buffers.batch_size
        generator = torch.Generator().manual_seed(seed)

        def normal(*tail: int) -> Tensor:
            return torch.randn((members, rows, *tail), generator=generator)

        def chance(probability: float) -> Tensor:
            return torch.rand((members, rows), generator=generator) < probability

        # operands are rounded before both backends see them
        state, next_state = (normal(state_dim).to(self.fused.act_dtype).float() for _ in range(2))
        reward, terminated, weighs_one = 0.5 * normal(), chance(0.3), chance(0.2)
        raw = torch.rand((members, rows), generator=generator) + 0.01
        largest = raw.amax(1)
        branches = [
            torch.randint(n, (members, rows), generator=generator) for n in self.layout.actions_per_branch
        ]
        action = torch.stack(branches, -1)
        buffers.state[..., :state_dim].copy_(torch.stack([state, state, next_state]))
        buffers.state[..., state_dim] = 1.0
        buffers.action.copy_(action)
        buffers.reward.copy_(reward)
        buffers.terminated.copy_(terminated)
        buffers.weight.copy_(raw.masked_fill(weighs_one, -1.0))
        buffers.largest_weight.copy_(largest.view(torch.int32))
        weight = torch.where(weighs_one, 1.0, raw / largest[:, None]).double()
        index = torch.zeros((members, rows), dtype=torch.int64)
        return Batch(index, state.double(), action, reward.double(), next_state.double(), terminated, weight)


@pytest.fixture
def make_twins() -> Callable[..., Twins]:
    """Builds both agents; ``changes`` are overrides common to all members."""

    def build(
        members: int = 2,
        state_dim: int = 9,
        branches: tuple[int, ...] = (5, 3),
        precision: str = "fp32",
        device: torch.device = CPU,
        folds: tuple[int, ...] | None = None,
        **changes: object,
    ) -> Twins:
        shape = {"trunk_widths": (7, 6), "head_width": 5, "num_atoms": 9, "batch_size": 8} | changes
        configs = [
            TrainerConfig().with_overrides({"learning_rate": 1e-3 * (1 + m), **shape}) for m in range(members)
        ]
        layout = StateLayout(0, state_dim, 0, 0, branches)
        keys = torch.tensor([[3, fold] for fold in (folds or range(members))])
        exact = Hyperparameters.stack(configs, torch.float64, CPU)
        hyper = Hyperparameters.stack(configs, torch.float32, device)
        reference = Agent(configs[0], layout, exact, keys, torch.float64, CPU)
        fused = FusedAgent(configs[0], layout, hyper, keys.to(device), device, precision)
        rows = configs[0].agent.batch_size
        buffers = StepBuffers.allocate(members, rows, layout, fused.act_dtype, device)
        return Twins(configs[0], layout, reference, fused, buffers, hyper)

    return build


@pytest.fixture
def cuda() -> torch.device:
    """The CUDA device of tests marked gpu."""
    return torch.device("cuda", torch.cuda.current_device())


@pytest.fixture
def torch_rectifier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the two elementwise kernels, so that the algebra of the layers runs on the CPU."""

    def relu(hidden: Tensor, columns: int) -> None:
        hidden[..., :columns].relu_()

    def relu_mask(gradient: Tensor, hidden: Tensor) -> None:
        gradient.mul_(hidden[..., : gradient.shape[2]] > 0)

    monkeypatch.setattr("trainer.fused.networks.relu", relu)
    monkeypatch.setattr("trainer.fused.networks.relu_mask", relu_mask)
