import math

import pytest
import torch

from trainer.reference.c51_loss import c51_loss


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def example(members=2, batch=5, branches=3, atoms=7):
    logits = random(members, batch, branches, atoms)
    target = torch.softmax(random(members, batch, atoms, seed=1), -1)
    weight = torch.rand(members, batch, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    return logits, target, weight


def test_uniform_logits_cost_the_logarithm_of_the_number_of_atoms():
    logits = torch.zeros(1, 1, 1, 4, dtype=torch.float64)
    target = torch.tensor([[[0.0, 1.0, 0.0, 0.0]]], dtype=torch.float64)
    result = c51_loss(logits, target, torch.ones(1, 1, dtype=torch.float64))
    assert result.loss.item() == pytest.approx(math.log(4))
    assert result.td_error.item() == pytest.approx(math.log(4))
    assert result.gradient.flatten().tolist() == [0.25, -0.75, 0.25, 0.25]


def test_the_gradient_equals_autograd_of_the_weighted_mean_cross_entropy():
    logits, target, weight = example()
    leaf = logits.clone().requires_grad_()
    cross_entropy = -(target[:, :, None] * torch.log_softmax(leaf, -1)).sum(-1)  # [M, B, K]
    loss = (weight * cross_entropy.mean(2)).mean(1)
    (expected,) = torch.autograd.grad(loss.sum(), leaf)
    result = c51_loss(logits, target, weight)
    torch.testing.assert_close(result.loss, loss.detach(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(result.gradient, expected, rtol=1e-10, atol=1e-10)


def test_the_gradient_sums_to_zero_over_the_atoms():
    result = c51_loss(*example())
    assert result.gradient.sum(-1).abs().max() < 1e-15


def test_the_priority_signal_is_the_unweighted_mean_divergence_of_the_branches():
    logits, target, weight = example()
    divergence = torch.nn.functional.kl_div(
        torch.log_softmax(logits, -1), target[:, :, None].expand_as(logits), reduction="none"
    ).sum(-1)
    result = c51_loss(logits, target, weight)
    torch.testing.assert_close(result.td_error, divergence.mean(2), rtol=1e-10, atol=1e-10)
    assert torch.equal(result.td_error, c51_loss(logits, target, 0 * weight).td_error)


def test_a_perfect_prediction_has_no_error_and_no_gradient():
    logits, _, weight = example(branches=1)
    result = c51_loss(logits, torch.softmax(logits[:, :, 0], -1), weight)
    assert result.td_error.abs().max() < 1e-12
    assert result.gradient.abs().max() < 1e-15


def test_a_row_of_weight_zero_has_no_gradient_and_double_weight_doubles_it():
    logits, target, weight = example()
    weight[:, 0] = 0.0
    once, twice = c51_loss(logits, target, weight), c51_loss(logits, target, 2 * weight)
    assert once.gradient[:, 0].abs().max() == 0
    torch.testing.assert_close(twice.gradient, 2 * once.gradient)
    torch.testing.assert_close(twice.loss, 2 * once.loss)


def test_far_apart_logits_stay_finite_in_float32():
    logits = torch.tensor([[[[-300.0, 0.0, 300.0]]]])
    target = torch.tensor([[[1.0, 0.0, 0.0]]])
    result = c51_loss(logits, target, torch.ones(1, 1))
    assert result.loss.item() == 600.0
    assert result.td_error.item() == 600.0


def test_a_nan_in_the_target_reaches_the_priority_signal_of_its_row_only():
    logits, target, weight = example(members=1)
    target[0, 2, 0] = math.nan
    td_error = c51_loss(logits, target, weight).td_error[0]
    assert td_error.isnan().tolist() == [False, False, True, False, False]
