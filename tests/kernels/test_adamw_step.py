"""adamw_step: clipping, AdamW, target and bfloat16 copies against the float64 formulas."""

import pytest
import torch

from trainer.config import TrainerConfig
from trainer.fused.parameters import q_parameters, value_parameters
from trainer.kernels.accept_step import SCALARS
from trainer.kernels.adamw_step import adamw_step
from trainer.layout import StateLayout
from trainer.reference.adamw import AdamScalars, AdamState, adamw
from trainer.reference.polyak import polyak

pytestmark = pytest.mark.gpu
MEMBERS, RATE, DECAY, TAU, CLIP = 3, 1e-2, 0.1, 0.25, 0.5
LAYOUT = StateLayout(0, 9, 0, 0, (5, 3))


def normal(shape, seed, device):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


@pytest.fixture(params=["value", "q", "q with targets"])
def parameters(request, cuda):
    config = TrainerConfig().with_overrides(
        {
            "trunk_widths": (33, 20),
            "head_width": 7,
            "num_atoms": 51,
            "use_iql": request.param != "q with targets",
        }
    )
    build = value_parameters if request.param == "value" else q_parameters
    kind = build(config.agent, LAYOUT, MEMBERS, 2, torch.bfloat16, cuda)
    kind.value.copy_(normal(kind.value.shape, 0, cuda))
    kind.first.copy_(normal(kind.first.shape, 1, cuda))
    kind.second.copy_(normal(kind.second.shape, 2, cuda).square())
    kind.gradient.copy_(normal(kind.gradient.shape, 3, cuda))
    kind.operand.copy_(kind.value)
    return kind


def scalars_of(networks, accept, step, device):
    """StepScalars of accepted and refused members at Adam's step ``step``."""
    row = [1.0, CLIP, 0.9, 1 - 0.9, 0.999, 1 - 0.999, RATE / (1 - 0.9**step)]
    row += [(1 - 0.999**step) ** -0.5, 1e-8, 1 - RATE * DECAY, TAU, 0.0]
    scalars = torch.tensor(row).repeat(networks, MEMBERS, 1)
    scalars[..., 0] = torch.tensor(accept, dtype=torch.float32)
    assert scalars.shape[2] == SCALARS
    return scalars.to(device)


def expected_step(kind, step):
    """Parameters, moments and targets after the step, in float64 on the CPU."""
    value = kind.value[: kind.online].cpu().double()
    state = AdamState(
        kind.first.cpu().double(), kind.second.cpu().double(), torch.full((kind.online,), step - 1)
    )
    each = (RATE, 0.9, 0.999, 1e-8, DECAY)
    scalars = AdamScalars(*(torch.full((kind.online,), x, dtype=torch.float64) for x in each))
    marks = kind.decays.repeat_interleave(4).bool().cpu()
    undecayed = value.clone()
    gradient = CLIP * kind.gradient[:, 0].cpu().double()
    accept = torch.ones(kind.online, dtype=torch.bool)
    start = AdamState(state.first_moment.clone(), state.second_moment.clone(), state.step.clone())
    adamw(value, gradient, state, scalars, accept, kind.block.width)
    adamw(undecayed, gradient, start, scalars, accept, 0)
    value = torch.where(marks, value, undecayed)
    target = kind.value[kind.online :].cpu().double()
    polyak(target, value[: kind.targets], torch.full((kind.targets,), TAU, dtype=torch.float64))
    return value, state.first_moment, state.second_moment, target


@pytest.mark.parametrize("step", [1, 1000])
def test_a_step_equals_the_float64_formulas(parameters, cuda, step):
    kind = parameters
    expected = expected_step(kind, step)
    adamw_step(kind, scalars_of(kind.online // MEMBERS, [1] * MEMBERS, step, cuda))
    ours = kind.value[: kind.online], kind.first, kind.second, kind.value[kind.online :]
    for tensor, formula in zip(ours, expected, strict=True):
        torch.testing.assert_close(tensor.cpu().double(), formula, rtol=1e-5, atol=1e-6)
    assert torch.equal(kind.operand, kind.value.to(torch.bfloat16))


def test_a_refused_member_keeps_every_bit_whatever_its_gradient(parameters, cuda):
    kind = parameters
    rows = torch.arange(len(kind.value), device=cuda) % MEMBERS == 1
    online = rows[: kind.online]
    kind.gradient[online] = float("nan")
    before = kind.value.clone(), kind.first.clone(), kind.second.clone(), kind.operand.clone()
    adamw_step(kind, scalars_of(kind.online // MEMBERS, [1, 0, 1], 1, cuda))
    after = kind.value, kind.first, kind.second, kind.operand
    for old, new in zip(before, after, strict=True):
        chosen = rows[: len(old)]
        assert torch.equal(new[chosen], old[chosen])
        assert not torch.equal(new[~chosen], old[~chosen])
        assert new.isfinite().all()


def test_two_runs_give_the_same_bits(parameters, cuda):
    kind = parameters
    start = kind.value.clone(), kind.first.clone(), kind.second.clone()
    results = []
    for _ in range(2):
        for tensor, old in zip((kind.value, kind.first, kind.second), start, strict=True):
            tensor.copy_(old)
        adamw_step(kind, scalars_of(kind.online // MEMBERS, [1] * MEMBERS, 5, cuda))
        results.append(kind.value.clone())
    assert torch.equal(*results)
