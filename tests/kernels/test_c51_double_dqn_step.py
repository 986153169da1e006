"""c51_double_dqn_step: target, loss and gradient under Double DQN against the reference's formulas."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from trainer.config import TrainerConfig
from trainer.fused.networks import FusedNetworks
from trainer.fused.step_buffers import StepBuffers
from trainer.fused.workspaces import QSlopes, QWorkspace
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.c51_double_dqn_step import c51_double_dqn_step
from trainer.kernels.c51_iql_step import RowTerms
from trainer.layout import StateLayout
from trainer.reference.advantage_policy import greedy_actions
from trainer.reference.c51_loss import c51_loss
from trainer.reference.c51_project import c51_project
from trainer.reference.c51_support import expected_value, support
from trainer.reference.double_dqn_target import discounted_location, double_dqn_target
from trainer.reference.dueling_logits import chosen_logits, dueling_logits

pytestmark = pytest.mark.gpu
MEMBERS = 2
SHAPES = [
    {"rows": 1, "branches": (1,), "num_atoms": 2},
    {"rows": 33, "branches": (5, 3, 3), "num_atoms": 51},
    {"rows": 31, "branches": (3, 3, 3, 3), "num_atoms": 64},
    {"rows": 5, "branches": (11, 1), "num_atoms": 201},
]


def normal(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Case:
    """Random outputs of the three passes and a random batch; outputs lie between guard words."""

    def __init__(self, device, guards, rows, branches, num_atoms, dtype):
        overrides = {"num_atoms": num_atoms, "batch_size": rows, "trunk_widths": (4,), "head_width": 4}
        config = TrainerConfig().with_overrides(overrides | {"use_iql": False})
        layout = StateLayout(0, 3, 0, 0, branches)
        keys = torch.tensor([[0, 0], [0, 1]], device=device)
        self.rows, self.branches, self.num_atoms = rows, branches, num_atoms
        self.networks = FusedNetworks(config.agent, layout, keys, dtype, device)
        self.shapes = self.networks.shapes
        self.hyper = Hyperparameters.stack([config] * MEMBERS, torch.float32, device)
        kind = self.shapes, MEMBERS, rows, dtype, device
        self.passes = [QWorkspace.allocate(*kind) for _ in range(3)]  # Q(s), Q(s'), slow Q(s')
        for seed, workspace in enumerate(self.passes):
            workspace.logits.copy_(normal(workspace.logits.shape, seed))
        self.networks.output_bias.copy_(normal(self.networks.output_bias.shape, 10))
        self.networks.target_output_bias.copy_(normal(self.networks.output_bias.shape, 11))
        buffers = StepBuffers.allocate(MEMBERS, rows, layout, dtype, device)
        for k, n in enumerate(branches):
            buffers.action[..., k] = torch.randint(
                n, (MEMBERS, rows), generator=torch.Generator().manual_seed(k)
            )
        buffers.reward.copy_(3.0 * normal((MEMBERS, rows), 3))
        buffers.terminated.copy_(normal((MEMBERS, rows), 4) > 0.5)
        buffers.weight.copy_(normal((MEMBERS, rows), 5).abs() + 0.1)
        buffers.largest_weight.copy_(buffers.weight.amax(1).view(torch.int32))
        self.buffers = replace(buffers, td_error=guards.like(buffers.td_error))
        slopes = QSlopes.allocate(*kind)
        self.slopes = replace(slopes, logits=guards.like(slopes.logits))
        self.terms = RowTerms(guards.like(RowTerms.allocate(MEMBERS, rows, device).values))

    def run(self):
        c51_double_dqn_step(self.networks, *self.passes, self.buffers, self.hyper, self.slopes, self.terms)

    def head(self, number):
        bias = self.networks.target_output_bias if number == 2 else self.networks.output_bias
        logits = self.passes[number].logits + bias[:, None]
        rows = logits.view(MEMBERS, self.rows, self.shapes.head_rows, self.shapes.atom_pitch)
        return rows[..., : self.num_atoms].cpu().double().contiguous()

    def reference(self):
        """The same step by the reference's formulas in float64."""
        buffers, hyper = self.buffers, self.hyper
        gamma, low, high = (x.cpu().double() for x in (hyper.gamma, hyper.v_min, hyper.v_max))
        atoms = support(low, high, self.num_atoms)
        online = torch.softmax(dueling_logits(self.head(1), self.branches), -1)
        best = greedy_actions(expected_value(online, atoms), self.branches)
        probs = double_dqn_target(chosen_logits(self.head(2), best, self.branches))
        reward, terminated = buffers.reward.cpu().double(), buffers.terminated.cpu()
        place = discounted_location(reward, terminated, gamma, atoms[:, None, :])
        projection = c51_project(probs, place, low, high, self.num_atoms)
        head = self.head(0).requires_grad_()
        chosen = chosen_logits(head, buffers.action.cpu().long(), self.branches)
        critic = c51_loss(chosen.detach(), projection.target, buffers.importance_weight().cpu().double())
        (slope,) = torch.autograd.grad(chosen, head, critic.gradient)
        return SimpleNamespace(critic=critic, slope=slope, projection=projection)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_loss_and_gradient_equal_the_references(cuda, guards, shape, dtype):
    case = Case(cuda, guards, dtype=dtype, **shape)
    case.run()
    expected = case.reference()
    stored = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 8e-3, "atol": 1e-6}
    slopes = case.slopes.logits.view(MEMBERS, case.rows, case.shapes.head_rows, case.shapes.atom_pitch)
    torch.testing.assert_close(slopes[..., : case.num_atoms].cpu().double(), expected.slope, **stored)
    assert (slopes[..., case.num_atoms :] == 0).all()
    figures = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(case.buffers.td_error.cpu().double(), expected.critic.td_error, **figures)
    loss, value_loss, gap, clipped = case.terms.values.cpu().double().mean(2)
    torch.testing.assert_close(loss, expected.critic.loss, **figures)
    torch.testing.assert_close(clipped, expected.projection.clipped_share, **figures)
    assert value_loss.tolist() == gap.tolist() == [0.0, 0.0]
    assert guards.intact()


def test_a_tie_between_next_actions_goes_to_the_lowest_index(cuda, guards):
    case = Case(cuda, guards, dtype=torch.float32, **SHAPES[1])
    case.passes[1].logits.zero_()
    case.networks.output_bias.zero_()
    case.run()
    # the reference's argmax takes the first of equal maxima
    torch.testing.assert_close(
        case.buffers.td_error.cpu().double(), case.reference().critic.td_error, rtol=1e-5, atol=1e-5
    )


def test_a_second_run_gives_the_same_bits(cuda, guards):
    case = Case(cuda, guards, dtype=torch.bfloat16, **SHAPES[1])
    case.run()
    first = case.slopes.logits.clone()
    case.run()
    assert torch.equal(first, case.slopes.logits)


def test_nan_reaches_the_td_error_of_its_row_alone(cuda, guards):
    case = Case(cuda, guards, dtype=torch.float32, **SHAPES[1])
    case.passes[2].logits[1, 4] = float("nan")
    case.buffers.terminated[1, 4] = False
    case.run()
    assert case.buffers.td_error.isnan().nonzero().tolist() == [[1, 4]]
