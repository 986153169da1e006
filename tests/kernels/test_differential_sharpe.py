"""The differential Sharpe ratio: worked sequences, the paper's own form, and its bad moments."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trainer.reference.differential_sharpe import bar_reward, differential_sharpe, variance_floor


def run(returns, rate, first_moment, variance, floor, dtype=torch.float64):
    a, v = torch.tensor(first_moment, dtype=dtype), torch.tensor(variance, dtype=dtype)
    rate, floor = torch.tensor(rate, dtype=dtype), torch.tensor(floor, dtype=dtype)
    values = []
    for each in returns:
        value, a, v = differential_sharpe(a, v, torch.tensor(each, dtype=dtype), rate, floor)
        values.append(value.item())
    return values, a.item(), v.item()


def test_a_sequence_without_a_floor_matches_the_numbers_worked_by_hand():
    values, a, _ = run([0.02, -0.01, 0.03, 0], 0.1, 0.01, 0.0004, 0.0)
    assert values == pytest.approx([0.6875, -1.14908337, 1.04871783, -0.37640973], abs=1e-8)
    assert a == pytest.approx(0.009909, abs=1e-12)


def test_a_sequence_from_an_episode_start_matches_the_numbers_worked_by_hand():
    values, a, v = run([0.01, -0.02, 0.015, 0, 0.005], 0.1, 0.0, 1e-4, 1e-6)
    assert values == pytest.approx([1, -2.28417685, 1.46775881, -0.02165055, 0.42273602], abs=1e-8)
    assert a == pytest.approx(0.0009131, abs=1e-12)
    assert v == pytest.approx(0.000114661248, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("flat_bars", [2000, 9000])
def test_one_return_of_one_sigma_after_many_flat_bars_stays_finite_and_within_the_clip(dtype, flat_bars):
    sigma = torch.tensor(0.01, dtype=dtype)
    floor = variance_floor(sigma).item()
    values, _, _ = run([0.0] * flat_bars + [0.01], 0.01, 0.0, 1e-4, floor, dtype)
    assert all(map(math.isfinite, values))
    value = torch.tensor(values[-1], dtype=dtype)
    reward = bar_reward(value, sigma, sigma, torch.tensor(False))
    assert reward.item() <= 5
    assert values[-1] == pytest.approx(10, rel=1e-3)  # one sigma over a floor of a tenth of it


@pytest.mark.parametrize("constant", [0.2, 0.01, 1e-6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_constant_stream_of_returns_never_leaves_the_clip(constant, dtype):
    sigma = torch.tensor(max(constant, 1e-6), dtype=dtype)
    floor = variance_floor(sigma).item()
    values, a, v = run([constant] * 500, 0.01, 0.0, sigma.item() ** 2, floor, dtype)
    rewards = [bar_reward(torch.tensor(x), sigma, sigma, torch.tensor(False)).item() for x in values]
    assert all(abs(reward) <= 5 for reward in rewards)
    assert math.isfinite(a)
    assert math.isfinite(v)


def test_the_clip_holds_what_a_zero_start_would_have_spiked_to():
    # From A = V = 0 the paper's form gives 5.025189 at step 2 of any constant stream.
    assert bar_reward(
        torch.tensor([5.025189, -15.0]), torch.zeros(2), torch.ones(2), torch.tensor(False)
    ).tolist() == [5.0, -5.0]


def test_a_mean_of_ten_thousand_deviations_stays_finite():
    values, _, _ = run([1.0 + 1e-4 * (-1) ** i for i in range(300)], 0.01, 1.0, 1e-8, 1e-12, torch.float32)
    assert all(map(math.isfinite, values))


@settings(deadline=None, max_examples=100)
@given(
    first_moment=st.floats(-0.01, 0.01),
    variance=st.floats(1e-5, 1e-2),
    bar_return=st.floats(-0.1, 0.1),
    rate=st.floats(1e-3, 0.5),
)
def test_value_and_moments_equal_the_papers_form_where_that_is_well_conditioned(
    first_moment, variance, bar_return, rate
):
    second_moment = variance + first_moment**2
    d_first, d_second = bar_return - first_moment, bar_return**2 - second_moment
    paper = (second_moment * d_first - first_moment * d_second / 2) / variance**1.5
    values, a, v = run([bar_return], rate, first_moment, variance, 1e-12)
    assert values[0] == pytest.approx(paper, rel=1e-9, abs=1e-9)
    assert a == pytest.approx(first_moment + rate * d_first, abs=1e-15)
    assert v == pytest.approx(second_moment + rate * d_second - a**2, rel=1e-9, abs=1e-15)


@settings(deadline=None, max_examples=30)
@given(returns=st.lists(st.floats(-0.05, 0.05), min_size=1, max_size=30))
def test_float32_follows_float64(returns):
    assume(all(r == 0 or abs(r) > 1e-6 for r in returns))
    exact, _, _ = run(returns, 0.01, 0.0, 1e-4, 1e-6)
    single, _, _ = run(returns, 0.01, 0.0, 1e-4, 1e-6, torch.float32)
    assert single == pytest.approx(exact, rel=1e-3, abs=1e-4)


def test_the_floor_is_a_tenth_of_sigma_but_never_below_a_millionth():
    floors = variance_floor(torch.tensor([0.01, 1e-6], dtype=torch.float64))
    assert floors.tolist() == pytest.approx([1e-6, 1e-12])


def test_a_member_may_be_paid_its_return_in_sigmas_with_the_same_clip():
    value = torch.tensor([9.0, 9.0, 9.0])
    returns, sigma = torch.tensor([0.02, 0.08, -0.9]), torch.full((3,), 0.01)
    rewards = bar_reward(value, returns, sigma, torch.tensor([True, True, False]))
    assert rewards.tolist() == pytest.approx([2.0, 5.0, 5.0])
