import pytest
import torch

from trainer.reference.gradient_clip import clip_factor, gradient_norm


def test_the_norm_of_every_row_is_its_own():
    gradient = torch.tensor([[[3.0, 4.0], [0.0, 0.0]], [[5.0, 12.0], [8.0, 15.0]]])
    assert gradient_norm(gradient).tolist() == [[5.0, 0.0], [13.0, 17.0]]


def test_a_norm_above_the_limit_is_scaled_down_to_it():
    factor = clip_factor(torch.tensor([5.0], dtype=torch.float64), torch.tensor([1.0], dtype=torch.float64))
    assert factor.item() == pytest.approx(1.0 / (5.0 + 1e-6), abs=1e-15)


def test_a_norm_below_the_limit_and_a_norm_of_zero_are_left():
    assert clip_factor(torch.tensor([0.5, 0.0]), torch.tensor([1.0, 1e-9])).tolist()[0] == 1.0
    assert clip_factor(torch.tensor([0.0]), torch.tensor([1.0])).item() == 1.0


def test_the_factor_agrees_with_torchs_own_clipping():
    gradient = torch.randn(3, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    limit = torch.tensor([1.0, 5.0, 100.0], dtype=torch.float64)
    clipped = gradient * clip_factor(gradient_norm(gradient), limit)[:, None]
    for row in range(3):
        parameter = torch.nn.Parameter(torch.zeros(40, dtype=torch.float64))
        parameter.grad = gradient[row].clone()
        torch.nn.utils.clip_grad_norm_([parameter], limit[row].item())
        torch.testing.assert_close(clipped[row], parameter.grad, rtol=1e-10, atol=1e-10)


def test_a_row_that_is_not_finite_has_a_norm_that_is_not_finite():
    gradient = torch.tensor([[1.0, torch.nan], [1.0, torch.inf], [1.0, 1.0]])
    assert gradient_norm(gradient).isfinite().tolist() == [False, False, True]
