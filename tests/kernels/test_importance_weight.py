"""Importance weights: the numbers of a small case by hand, the schedule of beta, the normalisation."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.reference.importance_weight import annealed_beta, importance_weight
from trainer.reference.prioritised_sample import mass_of
from trainer.reference.priority_write import priority_of


def weights_of(errors: list[float], alpha: float, beta: float) -> tuple[torch.Tensor, torch.Tensor]:
    mass = mass_of(priority_of(torch.tensor([errors]), torch.tensor([alpha])))
    total, count = mass.sum(dim=1), torch.tensor(len(errors))
    probability = mass.double() / total.double()
    return probability[0], importance_weight(mass, total, count, torch.tensor([beta], dtype=torch.float64))[0]


def test_equal_errors_of_zero_have_equal_probability_and_weight_one():
    probability, weight = weights_of([0.0] * 8, 0.6, 0.4)
    assert probability.tolist() == [0.125] * 8
    assert weight.tolist() == [1.0] * 8


def test_one_error_among_zeros_has_the_weight_computed_by_hand():
    probability, weight = weights_of([0.0, 0.0, 0.0, 1.0], 0.6, 0.4)
    torch.testing.assert_close(
        probability, torch.tensor([0.000251, 0.000251, 0.000251, 0.999247]).double(), atol=5e-7, rtol=0.0
    )
    torch.testing.assert_close(weight, torch.tensor([1.0, 1.0, 1.0, 0.036308]).double(), atol=5e-7, rtol=0.0)


def test_the_formula_before_normalisation_is_n_p_to_the_minus_beta():
    mass = torch.tensor([[1, 2, 5]])
    weight = importance_weight(mass, torch.tensor([10]), torch.tensor(6), torch.tensor([1.0]).double())
    raw = torch.tensor([10 / 6, 5 / 6, 2 / 6], dtype=torch.float64)
    torch.testing.assert_close(weight[0], raw / raw[0])


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=30), st.floats(0.0, 1.0))
def test_weights_lie_in_zero_to_one_and_the_rarest_row_weighs_one(masses, beta):
    mass = torch.tensor([masses])
    total = mass.sum(dim=1)
    weight = importance_weight(mass, total, torch.tensor(len(masses)), torch.tensor([beta]).double())
    assert weight.max() == 1.0
    assert weight.min() > 0.0
    assert weight[0, mass.argmin()] == 1.0


@pytest.mark.parametrize(("step", "beta"), [(0, 0.4), (1, 0.55), (2, 0.7), (3, 0.85), (4, 1.0), (9, 1.0)])
def test_beta_rises_linearly_and_is_one_at_the_last_of_five_steps(step, beta):
    got = annealed_beta(torch.tensor(step), torch.tensor([0.4], dtype=torch.float64), torch.tensor([5.0]))
    assert float(got) == pytest.approx(beta, abs=1e-15)


@pytest.mark.parametrize("total", [1, 2, 7, 10240])
def test_beta_is_exactly_one_at_the_last_step(total):
    start = torch.tensor([0.0, 0.1, 0.4, 0.7, 1.0])
    got = annealed_beta(torch.tensor(total - 1), start, torch.full((5,), float(total)))
    assert got.tolist() == [1.0] * 5
