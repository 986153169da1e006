import math

import pytest

from trainer.statistics.moments import Moments
from trainer.statistics.probabilistic_sharpe import probabilistic_sharpe
from trainer.statistics.track_record import minimum_track_record

SHAPE = Moments(skewness=-2.448, kurtosis=10.164)


def test_at_the_minimum_length_the_probability_is_the_confidence():
    ratio = 1.585 / math.sqrt(12)
    length = minimum_track_record(ratio, SHAPE)
    below = probabilistic_sharpe(ratio, math.floor(length), SHAPE)
    above = probabilistic_sharpe(ratio, math.ceil(length), SHAPE)
    assert below < 0.95 < above
    assert length == pytest.approx(34.5971, abs=5e-5)


def test_normal_returns_by_hand():
    # SR = .1: factor 1 + .01 / 2, (1.644854 / .1)^2 = 270.5543; 1 + 1.005 * 270.5543
    assert minimum_track_record(0.1, Moments(0.0, 3.0)) == pytest.approx(272.9071, abs=5e-4)


def test_no_length_suffices_at_or_below_the_threshold():
    assert minimum_track_record(0.0, SHAPE) is None
    assert minimum_track_record(0.1, SHAPE, threshold=0.1) is None


def test_a_confidence_of_a_half_or_one_is_refused():
    for confidence in (0.5, 1.0):
        with pytest.raises(ValueError, match="confidence"):
            minimum_track_record(0.1, SHAPE, confidence=confidence)
