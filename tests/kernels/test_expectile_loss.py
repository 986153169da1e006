import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.reference.expectile_loss import expectile_loss


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def fixed_point(samples, expectile):
    """Where descent along the written gradient ends: below it the gradient is negative, above positive."""
    samples = tensor(samples)[None]
    low, high = -10.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        fit = expectile_loss(samples, torch.full_like(samples, middle), tensor([expectile]))
        if fit.gradient.sum() > 0:
            high = middle
        else:
            low = middle
    return low


@pytest.mark.parametrize(("expectile", "loss"), [(0.7, 1.49375), (0.5, 1.78125), (0.9, 1.20625)])
def test_the_loss_of_four_known_differences(expectile, loss):
    fit = expectile_loss(
        tensor([[2.0, -1.0, 0.5, -3.0]]), torch.zeros(1, 4, dtype=torch.float64), tensor([expectile])
    )
    assert fit.loss.item() == pytest.approx(loss, abs=1e-12)


def test_the_gradient_of_four_known_differences_pulls_value_up_towards_higher_quantities():
    fit = expectile_loss(
        tensor([[2.0, -1.0, 0.5, -3.0]]), torch.zeros(1, 4, dtype=torch.float64), tensor([0.7])
    )
    torch.testing.assert_close(fit.gradient, tensor([[-0.7, 0.15, -0.175, 0.45]]))


@pytest.mark.parametrize(
    ("samples", "expectile", "expected"),
    [
        ([0.0, 1.0], 0.5, 0.5),
        ([0.0, 1.0], 0.7, 0.7),
        ([0.0, 1.0], 0.9, 0.9),
        ([-1.0, 0.0, 2.0], 0.5, 1 / 3),
        ([-1.0, 0.0, 2.0], 0.7, 0.8461538461538461),
        ([-1.0, 0.0, 2.0], 0.9, 1.5454545454545454),
    ],
)
def test_descent_ends_at_the_known_expectile(samples, expectile, expected):
    assert fixed_point(samples, expectile) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("expectile", "expected"), [(0.5, 0.0), (0.7, 0.3371), (0.9, 0.8616)])
def test_the_minimiser_for_normal_targets_is_the_normal_expectile(expectile, expected):
    # equally likely quantiles stand for N(0, 1)
    quantiles = torch.special.ndtri((torch.arange(20000, dtype=torch.float64) + 0.5) / 20000)
    assert fixed_point(quantiles.tolist(), expectile) == pytest.approx(expected, abs=5e-4)


def test_the_gradient_equals_autograd():
    generator = torch.Generator().manual_seed(0)
    quantity = torch.randn(3, 17, dtype=torch.float64, generator=generator)
    value = torch.randn(3, 17, dtype=torch.float64, generator=generator).requires_grad_()
    expectile = tensor([0.3, 0.5, 0.9])
    u = quantity - value
    loss = ((expectile[:, None] - (u < 0).double()).abs() * u**2).mean(1)
    (expected,) = torch.autograd.grad(loss.sum(), value)
    fit = expectile_loss(quantity, value.detach(), expectile)
    torch.testing.assert_close(fit.loss, loss.detach(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(fit.gradient, expected, rtol=1e-10, atol=1e-10)


def test_one_quantity_serves_the_high_and_the_low_network():
    quantity, value = tensor([[1.0, -1.0]]), torch.zeros(2, 1, 2, dtype=torch.float64)
    fit = expectile_loss(quantity, value, tensor([[0.7], [0.3]]))
    torch.testing.assert_close(fit.gradient, tensor([[[-0.7, 0.3]], [[-0.3, 0.7]]]))


@settings(deadline=None, max_examples=20)
@given(st.floats(0.05, 0.95), st.lists(st.floats(-3, 3), min_size=2, max_size=6))
def test_mirrored_samples_and_mirrored_expectile_give_the_mirrored_value(expectile, samples):
    mirrored = fixed_point([-x for x in samples], 1 - expectile)
    assert fixed_point(samples, expectile) == pytest.approx(-mirrored, abs=1e-6)
