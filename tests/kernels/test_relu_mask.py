"""relu_mask: the rectifier's backward pass against autograd."""

import pytest
import torch

from trainer.kernels.relu_mask import relu_mask


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("networks", "rows", "columns"), [(1, 1, 8), (3, 31, 24), (2, 257, 264), (1, 33, 640)]
)
def test_the_gradient_equals_autograds(cuda, guards, dtype, networks, rows, columns):
    x = torch.randn((networks, rows, columns), device=cuda).to(dtype).requires_grad_()
    slope = torch.randn_like(x)
    hidden = torch.ones((networks, rows, columns + 8), dtype=dtype, device=cuda)
    hidden[..., :columns] = torch.relu(x).detach()
    (expected,) = torch.autograd.grad(torch.relu(x), x, slope)
    gradient = guards.like(slope).copy_(slope)
    relu_mask(gradient, hidden)
    assert torch.equal(gradient, expected)
    assert guards.intact()


@pytest.mark.gpu
def test_a_slope_of_nan_passes_an_open_gate_alone(cuda):
    gradient = torch.full((1, 1, 8), float("nan"), device=cuda)
    hidden = torch.zeros((1, 1, 16), device=cuda)
    hidden[0, 0, 3] = 1.0
    relu_mask(gradient, hidden)
    assert gradient.isnan()[0, 0].nonzero().flatten().tolist() == [3]
    assert gradient.nan_to_num(0.0).abs().sum() == 0.0
