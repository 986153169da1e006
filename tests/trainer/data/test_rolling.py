from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.rolling import change_over, ratio, rolling_max, rolling_mean, rolling_min, rolling_sum

VALUES = np.array([1.0, 4.0, 2.0, 8.0, 16.0, 3.0])


def test_windows_are_partial_at_the_start():
    assert rolling_sum(VALUES, 3).tolist() == [1, 5, 7, 14, 26, 27]
    assert rolling_mean(VALUES, 2).tolist() == [1, 2.5, 3, 5, 12, 9.5]
    assert rolling_max(VALUES, 3).tolist() == [1, 4, 4, 8, 16, 16]
    assert rolling_min(VALUES, 3).tolist() == [1, 1, 1, 2, 2, 3]
    assert change_over(VALUES, 2).tolist() == [0, 3, 1, 4, 14, -5]


def test_a_ratio_to_nothing_is_zero():
    assert ratio(np.array([0.0, 5.0, 1.0]), np.array([0.0, 0.0, 4.0])).tolist() == [0, 0, 0.25]
    assert ratio(np.array([1.0]), np.array([1e-310])).tolist() == [1e6]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 300), st.integers(1, 130), st.integers(0, 2**31))
def test_windows_agree_with_slices(rows, window, seed):
    values = np.random.default_rng(seed).normal(size=rows)
    slices = [values[max(0, t + 1 - window) : t + 1] for t in range(rows)]
    assert rolling_sum(values, window) == pytest.approx([s.sum() for s in slices], abs=1e-12)
    assert rolling_max(values, window).tolist() == [s.max() for s in slices]
    assert rolling_min(values, window).tolist() == [s.min() for s in slices]


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 300), st.integers(1, 130), st.data())
def test_a_window_is_the_same_bits_whatever_follows(rows, window, data):
    values = np.random.default_rng(rows).normal(size=rows)
    cut = data.draw(st.integers(1, rows))
    assert rolling_sum(values[:cut], window).tobytes() == rolling_sum(values, window)[:cut].tobytes()
