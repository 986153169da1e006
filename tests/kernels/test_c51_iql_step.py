"""c51_iql_step: losses of implicit Q-learning and their gradients against the reference's formulas."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from trainer.config import TrainerConfig
from trainer.fused.networks import FusedNetworks
from trainer.fused.step_buffers import StepBuffers
from trainer.fused.workspaces import QSlopes, QWorkspace, VSlopes, VWorkspace
from trainer.graph import GraphedCallable
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.c51_iql_step import RowTerms, c51_given_bootstrap, c51_iql_step, loss_defines
from trainer.layout import StateLayout
from trainer.reference.c51_loss import c51_loss
from trainer.reference.c51_project import c51_project
from trainer.reference.c51_support import expected_value, support
from trainer.reference.double_dqn_target import discounted_location
from trainer.reference.dueling_logits import chosen_logits
from trainer.reference.expectile_loss import expectile_loss

MEMBERS = 2
SHAPES = [
    {"rows": 1, "branches": (1,), "num_atoms": 2, "trunk_widths": (1,)},
    {"rows": 33, "branches": (5, 3, 3), "num_atoms": 51, "trunk_widths": (40, 256)},
    {"rows": 31, "branches": (3, 3, 3, 3), "num_atoms": 64, "trunk_widths": (33,)},
    {"rows": 5, "branches": (11, 1), "num_atoms": 201, "trunk_widths": (300,)},
]


def normal(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Case:
    """Random outputs of the networks and a random batch on the device; outputs lie between guard words."""

    def __init__(self, device, guards, rows, branches, num_atoms, trunk_widths, dtype):
        overrides = {
            "trunk_widths": trunk_widths,
            "num_atoms": num_atoms,
            "batch_size": rows,
            "head_width": 4,
        }
        configs = [
            TrainerConfig().with_overrides(overrides | {"iql_expectile_tau": 0.7 + 0.2 * m}) for m in (0, 1)
        ]
        layout = StateLayout(0, 3, 0, 0, branches)
        keys = torch.tensor([[0, 0], [0, 1]], device=device)
        self.rows, self.branches, self.num_atoms, self.dtype = rows, branches, num_atoms, dtype
        self.networks = FusedNetworks(configs[0].agent, layout, keys, dtype, device)
        self.shapes = self.networks.shapes
        self.hyper = Hyperparameters.stack(configs, torch.float32, device)
        self.q = QWorkspace.allocate(self.shapes, MEMBERS, rows, dtype, device)
        self.v = VWorkspace.allocate(self.shapes, 3 * MEMBERS, rows, dtype, device)
        self.q.logits.copy_(normal(self.q.logits.shape, 0))
        self.networks.output_bias.copy_(normal(self.networks.output_bias.shape, 1))
        columns = self.shapes.trunk_columns[-1]
        self.v.hidden[-1][..., :columns] = torch.relu(normal((3 * MEMBERS, rows, columns), 2)).to(device)
        buffers = StepBuffers.allocate(MEMBERS, rows, layout, dtype, device)
        for k, n in enumerate(branches):
            buffers.action[..., k] = torch.randint(
                n, (MEMBERS, rows), generator=torch.Generator().manual_seed(k)
            )
        buffers.reward.copy_(3.0 * normal((MEMBERS, rows), 3))
        buffers.terminated.copy_(normal((MEMBERS, rows), 4) > 0.5)
        buffers.weight.copy_(normal((MEMBERS, rows), 5).abs() + 0.1)
        buffers.largest_weight.copy_(buffers.weight.amax(1).view(torch.int32))
        buffers.weight[:, ::3] = -1.0
        self.buffers = replace(buffers, td_error=guards.like(buffers.td_error))
        q_slopes = QSlopes.allocate(self.shapes, MEMBERS, rows, dtype, device)
        v_slopes = VSlopes.allocate(self.shapes, 2 * MEMBERS, rows, dtype, device)
        self.q_slopes = replace(q_slopes, logits=guards.like(q_slopes.logits))
        self.v_slopes = replace(
            v_slopes,
            output=guards.like(v_slopes.output),
            hidden=(*v_slopes.hidden[:-1], guards.like(v_slopes.hidden[-1])),
        )
        self.terms = RowTerms(guards.like(RowTerms.allocate(MEMBERS, rows, device).values))

    def run(self):
        c51_iql_step(
            self.networks,
            self.q,
            self.v,
            self.buffers,
            self.hyper,
            self.q_slopes,
            self.v_slopes,
            self.terms,
        )

    def head(self):
        """Returns the head's output with bias [M, B, 1 + A, Z], float64 on the CPU."""
        logits = self.q.logits + self.networks.output_bias[:, None]
        rows = logits.view(MEMBERS, self.rows, self.shapes.head_rows, self.shapes.atom_pitch)
        return rows[..., : self.num_atoms].cpu().double()

    def values(self):
        """Returns V_high(s), V_low(s), V_target(s') [3, M, B] in float64 on the CPU."""
        products = self.v.hidden[-1].double() * self.networks.value_output[:, None].double()
        return products.sum(2).view(3, MEMBERS, self.rows).cpu()

    def reference(self):
        """The same step by the reference's formulas in float64."""
        buffers, hyper = self.buffers, self.hyper
        scalars = (x.cpu().double() for x in (hyper.gamma, hyper.expectile, hyper.v_min, hyper.v_max))
        gamma, tau, low, high = scalars
        values = self.values()
        reward, terminated = buffers.reward.cpu().double(), buffers.terminated.cpu()
        place = discounted_location(reward, terminated, gamma, values[2][..., None])
        projection = c51_project(torch.ones_like(place), place, low, high, self.num_atoms)
        head = self.head().contiguous().requires_grad_()
        chosen = chosen_logits(head, buffers.action.cpu().long(), self.branches)
        critic = c51_loss(chosen.detach(), projection.target, buffers.importance_weight().cpu().double())
        (slope,) = torch.autograd.grad(chosen, head, critic.gradient)
        quantity = expected_value(critic.probs, support(low, high, self.num_atoms)).mean(2)
        fit = expectile_loss(quantity, values[:2], torch.stack([tau, 1.0 - tau]))
        return SimpleNamespace(critic=critic, slope=slope, fit=fit, values=values, projection=projection)


def logit_slopes(case):
    """Returns what the kernel wrote, split in atoms and padding."""
    rows = case.q_slopes.logits.view(MEMBERS, case.rows, case.shapes.head_rows, case.shapes.atom_pitch)
    return rows[..., : case.num_atoms].cpu().double(), rows[..., case.num_atoms :]


def test_the_actions_of_all_branches_are_one_word_without_a_comma():
    assert loss_defines(51, (5, 3, 11), torch.bfloat16) == (
        ("NUM_ATOMS", 51),
        ("ACTIONS", "n5n3n11"),
        ("ACTIVATION", "foxtune::Bf16"),
    )


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_losses_and_gradients_equal_the_references(cuda, guards, shape, dtype):
    case = Case(cuda, guards, dtype=dtype, **shape)
    case.run()
    expected = case.reference()
    stored = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 8e-3, "atol": 1e-6}
    figures = {"rtol": 1e-5, "atol": 1e-5}
    slopes, padding = logit_slopes(case)
    torch.testing.assert_close(slopes, expected.slope, **stored)
    assert (padding == 0).all()
    torch.testing.assert_close(case.buffers.td_error.cpu().double(), expected.critic.td_error, **figures)

    dv = expected.fit.gradient.reshape(2 * MEMBERS, case.rows)
    torch.testing.assert_close(case.v_slopes.output[..., 0].cpu().double(), dv, **stored)
    assert (case.v_slopes.output[..., 1:] == 0).all()
    columns = case.shapes.trunk_columns[-1]
    hidden = case.v.hidden[-1][: 2 * MEMBERS, :, :columns].cpu().double()
    output = case.networks.value_output[: 2 * MEMBERS, None, :columns].cpu().double()
    dhidden = dv[..., None] * output * (hidden > 0)
    torch.testing.assert_close(case.v_slopes.hidden[-1].cpu().double(), dhidden, **stored)

    loss, value_loss, gap, clipped = case.terms.values.cpu().double().mean(2)
    torch.testing.assert_close(loss, expected.critic.loss, **figures)
    torch.testing.assert_close(value_loss, expected.fit.loss.sum(0), **figures)
    torch.testing.assert_close(gap, (expected.values[0] - expected.values[1]).mean(1), **figures)
    torch.testing.assert_close(clipped, expected.projection.clipped_share)
    assert guards.intact()


@pytest.mark.gpu
def test_a_second_run_gives_the_same_bits(cuda, guards):
    case = Case(cuda, guards, dtype=torch.bfloat16, **SHAPES[1])
    case.run()
    first = case.q_slopes.logits.clone(), case.terms.values.clone()
    case.run()
    assert torch.equal(first[0], case.q_slopes.logits)
    assert torch.equal(first[1], case.terms.values)


@pytest.mark.gpu
def test_a_terminal_row_does_not_see_an_infinite_next_value(cuda, guards):
    case = Case(cuda, guards, dtype=torch.float32, **SHAPES[1])
    case.v.hidden[-1][2 * MEMBERS :, 0, 0] = float("inf")
    case.buffers.terminated[:, 0] = True
    case.run()
    assert case.buffers.td_error.isfinite().all()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["reward", "logits"])
def test_nan_reaches_the_td_error_of_its_row_alone(cuda, guards, name):
    case = Case(cuda, guards, dtype=torch.float32, **SHAPES[1])
    target = case.buffers.reward[1, 4:5] if name == "reward" else case.q.logits[1, 4]
    target.fill_(float("nan"))
    case.run()
    assert case.buffers.td_error.isnan().nonzero().tolist() == [[1, 4]]


@pytest.mark.gpu
def test_a_replay_takes_the_expectile_that_is_in_memory_now(cuda, guards):
    """u = Q - V_high = 2, -1, 0.5, -3 and V_low = Q; the losses are computed by hand."""
    shape = {"rows": 4, "branches": (3,), "num_atoms": 3, "trunk_widths": (8,)}
    case = Case(cuda, guards, dtype=torch.float32, **shape)
    case.q.logits.zero_()  # equal probabilities on a symmetric support: Q = 0
    case.networks.output_bias.zero_()
    hidden, output = case.v.hidden[-1], case.networks.value_output
    gap = torch.tensor([2.0, -1.0, 0.5, -3.0], device=cuda)
    hidden[..., :8].zero_()
    hidden[:MEMBERS, :, 0], hidden[:MEMBERS, :, 1] = (-gap).relu(), gap.relu()
    output.zero_()
    output[:, 0], output[:, 1] = 1.0, -1.0
    graph = GraphedCallable(case.run, lambda: None)
    for expectile, expected in ((0.5, 1.78125), (0.9, 1.20625), (0.7, 1.49375)):
        case.hyper.expectile.fill_(expectile)
        graph.replay()
        assert case.terms.values[1].mean(1).tolist() == pytest.approx([expected] * MEMBERS, rel=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_given_bootstrap_makes_the_same_critic_and_touches_nothing_of_the_value_networks(
    cuda, guards, shape, dtype
):
    case = Case(cuda, guards, dtype=dtype, **shape)
    bootstrap = case.values()[2].float().to(cuda).contiguous()
    slopes = case.q_slopes, case.terms
    c51_given_bootstrap(case.networks, case.q, bootstrap, case.buffers, case.hyper, *slopes)
    expected = case.reference()
    assert guards.intact()
    assert case.v_slopes.output.isnan().all()
    assert case.v_slopes.hidden[-1].isnan().all()
    stored = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 8e-3, "atol": 1e-6}
    figures = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(logit_slopes(case)[0], expected.slope, **stored)
    torch.testing.assert_close(case.buffers.td_error.cpu().double(), expected.critic.td_error, **figures)
    loss, value_loss, gap, _ = case.terms.values.cpu().double().mean(2)
    torch.testing.assert_close(loss, expected.critic.loss, **figures)
    assert (value_loss == 0.0).all()
    assert (gap == 0.0).all()
