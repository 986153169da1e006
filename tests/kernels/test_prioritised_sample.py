"""Stratified sampling by exact integer prefix sums, against Python integers."""

import itertools
import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.reference.philox import Purpose, draw, integer, uniform
from trainer.reference.prioritised_sample import mass_of, prioritised_sample, strata, stratum_multiplier

masses = st.lists(st.integers(0, 2**40), min_size=1, max_size=40).filter(any)


def sampled_by_hand(mass: list[int], batch_size: int, key: list[int], step: int) -> list[int]:
    """The contract in Python integers and IEEE doubles, one row at a time."""
    keys, at = torch.tensor([key]), torch.tensor(step)
    b = int(integer(draw(keys, Purpose.SAMPLE_OFFSET, at, torch.tensor([0])), batch_size)[0, 0, 0])
    prefix, chosen = list(itertools.accumulate(mass)), []
    for row in range(batch_size):
        u = float(
            uniform(draw(keys, Purpose.SAMPLE_UNIFORM, at, torch.tensor([row])), torch.float64)[0, 0, 0]
        )
        stratum = (stratum_multiplier(batch_size) * row + b) % batch_size
        position = math.trunc((stratum + u) * (float(prefix[-1]) / batch_size))
        chosen.append(next(slot for slot, total in enumerate(prefix) if total > position))
    return chosen


def test_the_integer_priority_is_rounded_to_the_nearest_even_of_q_times_2_to_the_32():
    q = torch.tensor([0.0, 1.0, 255.0, 1e-6, 0.5 * 2.0**-32, 1.5 * 2.0**-32])
    assert mass_of(q).tolist() == [0, 2**32, 255 * 2**32, 4295, 0, 2]


@pytest.mark.parametrize(
    ("batch_size", "multiplier"),
    [(1, 1), (2, 3), (3, 2), (10, 7), (32, 21), (33, 23), (256, 159), (500, 309)],
)
def test_the_stratum_multiplier_is_the_first_coprime_integer_from_618_thousandths(batch_size, multiplier):
    assert stratum_multiplier(batch_size) == multiplier


def test_the_strata_of_ten_rows_advance_by_seven_from_the_offset():
    assert strata(10, torch.tensor([0, 4])).tolist() == [
        [0, 7, 4, 1, 8, 5, 2, 9, 6, 3],
        [4, 1, 8, 5, 2, 9, 6, 3, 0, 7],
    ]


@pytest.mark.parametrize("batch_size", [1, 2, 31, 32, 33, 100, 257])
def test_every_stratum_is_taken_once(batch_size):
    offsets = torch.arange(batch_size)
    assert (strata(batch_size, offsets).sort(dim=1).values == torch.arange(batch_size)).all()


def test_any_first_rows_take_every_stratum_equally_often_over_the_offsets():
    first_rows = strata(32, torch.arange(32))[:, :13]
    assert first_rows.flatten().bincount().tolist() == [13] * 32


def test_the_first_half_of_the_rows_is_spread_over_the_range_of_strata():
    halves = strata(256, torch.arange(256))[:, :128]
    in_lower_half = (halves < 128).sum(dim=1)
    assert in_lower_half.min() >= 60
    assert in_lower_half.max() <= 68


@settings(deadline=None, max_examples=40)
@given(masses, st.integers(1, 24), st.integers(0, 2**31 - 1), st.integers(0, 2**33))
def test_the_draws_equal_those_of_python_integers(mass, batch_size, seed, step):
    drawn = prioritised_sample(
        torch.tensor([mass]), batch_size, torch.tensor(step), torch.tensor([[seed, 1]])
    )
    assert drawn.index[0].tolist() == sampled_by_hand(mass, batch_size, [seed, 1], step)
    assert drawn.mass[0].tolist() == [mass[slot] for slot in drawn.index[0].tolist()]
    assert int(drawn.total) == sum(mass)
    assert min(drawn.mass[0].tolist()) > 0


def test_a_slot_without_priority_is_never_drawn_even_at_the_borders_of_strata():
    mass = torch.tensor([[0, 1, 0, 0, 1, 0, 2, 0]] * 200)
    keys = torch.tensor([[seed, 0] for seed in range(200)])
    drawn = prioritised_sample(mass, 4, torch.tensor(0), keys)
    expected = torch.tensor([1, 4, 6, 6])
    assert (drawn.index.sort(dim=1).values == expected).all()


def test_the_largest_totals_of_the_contract_do_not_overflow():
    mass = mass_of(torch.full((1, 2**21), 255.0))
    drawn = prioritised_sample(mass, 64, torch.tensor(5), torch.tensor([[1, 2]]))
    assert int(drawn.total) == 255 * 2**53
    assert drawn.index.sort(dim=1).values[0].div(2**15, rounding_mode="floor").tolist() == list(range(64))


def test_draws_are_proportional_to_priority():
    mass = torch.tensor([[1, 2, 3, 4]]) * 2**32
    keys = torch.tensor([[seed, 0] for seed in range(500)])
    drawn = prioritised_sample(mass.expand(500, 4).contiguous(), 7, torch.tensor(1), keys)
    counts = drawn.index.flatten().bincount()
    for slot, count in enumerate(counts.tolist()):
        share = Fraction(slot + 1, 10)
        deviation = math.sqrt(3500 * share * (1 - share))  # of independent draws; strata lower it
        assert abs(count - 3500 * share) < 3 * deviation


def test_a_member_draws_the_same_slots_in_a_stack_as_alone():
    mass = torch.randint(0, 2**34, (5, 77), generator=torch.Generator().manual_seed(3))
    keys, step = torch.tensor([[9, fold] for fold in range(5)]), torch.tensor(4)
    stacked = prioritised_sample(mass, 33, step, keys)
    for member in range(5):
        rows = slice(member, member + 1)
        alone = prioritised_sample(mass[rows].clone(), 33, step, keys[rows])
        assert torch.equal(alone.index, stacked.index[rows])
