"""Philox4x32-10 against the known answers of Random123, and the maps from words to numbers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.reference.philox import (
    MULTIPLIER_0,
    MULTIPLIER_1,
    WEYL_0,
    WEYL_1,
    Purpose,
    counters,
    draw,
    integer,
    philox,
    uniform,
)

WORD = 0xFFFFFFFF
words = st.integers(0, WORD)


def philox_in_python_integers(key: list[int], counter: list[int]) -> list[int]:
    k0, k1 = key
    x0, x1, x2, x3 = counter
    for _ in range(10):
        p0, p1 = x0 * MULTIPLIER_0, x2 * MULTIPLIER_1
        x0, x1, x2, x3 = (p1 >> 32) ^ x1 ^ k0, p1 & WORD, (p0 >> 32) ^ x3 ^ k1, p0 & WORD
        k0, k1 = (k0 + WEYL_0) & WORD, (k1 + WEYL_1) & WORD
    return [x0, x1, x2, x3]


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ([0, 0], [0, 0, 0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([WORD] * 2, [WORD] * 4, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0xA4093822, 0x299F31D0],
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_the_known_answers_of_random123_come_out(key, counter, expected):
    assert philox(torch.tensor(key), torch.tensor(counter)).tolist() == expected


@settings(deadline=None, max_examples=30)
@given(st.lists(words, min_size=2, max_size=2), st.lists(words, min_size=4, max_size=4))
def test_wrapping_int64_arithmetic_equals_unbounded_integers(key, counter):
    result = philox(torch.tensor(key), torch.tensor(counter))
    assert result.tolist() == philox_in_python_integers(key, counter)


def test_keys_and_counters_broadcast_against_each_other():
    keys, many = torch.tensor([[1, 2], [3, 4], [5, 6]]), torch.arange(20).view(5, 4)
    grid = philox(keys[:, None, :], many[None])
    assert grid.shape == (3, 5, 4)
    assert torch.equal(grid[1], philox(keys[1], many))
    assert torch.equal(grid[:, 2], philox(keys, many[2]))


def test_a_draw_encrypts_purpose_step_and_lane():
    word = draw(torch.tensor([[7, 3]]), Purpose.DONOR, torch.tensor(11), torch.tensor([5]))
    assert word[0, 0].tolist() == philox_in_python_integers([7, 3], [3, 11, 5, 0])


def test_a_step_beyond_32_bits_wraps():
    step = torch.tensor(2**32 + 11)
    assert counters(Purpose.GOAL, step, torch.tensor([5])).tolist() == [[5, 11, 5, 0]]


def test_a_member_draws_the_same_words_in_any_stack():
    keys, step, lanes = torch.tensor([[1, 0], [2, 0], [1, 5]]), torch.tensor(9), torch.arange(17)
    stacked = draw(keys, Purpose.ACTION, step, lanes)
    for member in range(3):
        alone = draw(keys[member : member + 1], Purpose.ACTION, step, lanes)
        assert torch.equal(alone[0], stacked[member])


def test_purposes_steps_and_lanes_never_share_a_word():
    key = torch.tensor([[1, 2]])
    drawn = [
        draw(key, purpose, torch.tensor(step), torch.arange(50)) for purpose in Purpose for step in range(5)
    ]
    rows = {tuple(row) for each in drawn for row in each[0].tolist()}
    assert len(rows) == len(Purpose) * 5 * 50


def test_uniform_keeps_the_upper_24_bits_and_stays_below_one():
    word = torch.tensor([0, 0xFF, 0x100, 0x80000000, WORD])
    expected = [0.0, 0.0, 2.0**-24, 0.5, 1.0 - 2.0**-24]
    assert uniform(word, torch.float32).tolist() == expected
    assert uniform(word, torch.float64).tolist() == expected


def test_an_integer_is_the_upper_half_of_the_product():
    assert integer(torch.tensor([0, 0x7FFFFFFF, 0x80000000, WORD]), 10).tolist() == [0, 4, 5, 9]


@settings(deadline=None, max_examples=50)
@given(words, st.integers(1, 2**31 - 1))
def test_an_integer_lies_below_its_bound(word, bound):
    assert integer(torch.tensor([word]), bound).tolist() == [word * bound >> 32]
    assert 0 <= word * bound >> 32 < bound
