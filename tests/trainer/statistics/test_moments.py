import numpy as np
import pytest

from trainer.statistics.moments import moments


def test_moments_by_hand():
    # 0, 0, 3: mean 1, m2 = 2, m3 = 2, m4 = 6; skewness 2 / 2^1.5, kurtosis 6 / 4.
    shape = moments([0, 0, 3])
    assert shape.skewness == pytest.approx(2**-0.5)
    assert shape.kurtosis == pytest.approx(1.5)


def test_the_kurtosis_of_normal_returns_is_three_and_not_zero():
    shape = moments(np.random.default_rng(0).normal(0, 0.01, 200_000))
    assert shape.skewness == pytest.approx(0, abs=0.03)
    assert shape.kurtosis == pytest.approx(3, abs=0.06)


def test_returns_without_spread_have_no_moments():
    assert moments([0.1, 0.1, 0.1]) is None
    assert moments([]) is None
