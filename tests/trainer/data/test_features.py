from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data import features as module
from trainer.data.bars import Bars, Findings
from trainer.data.features import FEATURE_NAMES, WARM_UP, build_features, volume_ratio

HOUR = 3600 * 10**9
FOUND = Findings("made", "made", "hours", "UTC")


def bars_of(close, volume=None, returns="percent", spread=0.0):
    close = np.asarray(close, dtype=np.float64)
    opened = np.concatenate([close[:1], close[:-1]])
    volume = np.ones_like(close) if volume is None else np.asarray(volume, dtype=np.float64)
    high, low = np.maximum(opened, close) + spread, np.minimum(opened, close) - spread
    stamps = np.arange(len(close), dtype=np.int64) * HOUR
    return Bars(stamps, opened, high, low, close, volume, FOUND, returns=returns)


def random_bars(rows, seed, returns="percent"):
    rng = np.random.default_rng(seed)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.01, size=rows)))
    volume = rng.integers(0, 3, size=rows) * rng.exponential(size=rows)
    return bars_of(close if returns == "percent" else close - 100, volume, returns, spread=0.01)


def column(bars, name):
    return build_features(bars)[:, FEATURE_NAMES.index(name)].tolist()


def test_there_are_48_documented_columns():
    assert len(FEATURE_NAMES) == len(set(FEATURE_NAMES)) == 48
    assert build_features(random_bars(10, 0)).shape == (10, 48)
    for name in FEATURE_NAMES:
        stem = name.rstrip("0123456789")
        assert f"| {name} " in module.__doc__ or f"{stem}w " in module.__doc__ or name in module.__doc__


def test_a_volume_ratio_of_nothing_to_nothing_is_zero():
    volume = np.array([10.0, 0, 0, 0, 0, 5])
    assert volume_ratio(volume, 3)[2:].tolist() == [0, 0, 0, 3]
    assert column(bars_of([1.0] * 6, volume), "volume_ratio_3")[2:] == [0, 0, 0, 3]


def test_returns_and_distances_by_hand():
    bars = bars_of(np.exp([0.0, 0.5, 0.25, 0.75]))
    assert column(bars, "return_1") == pytest.approx([0, 0.5, -0.25, 0.5])
    assert column(bars, "return_2") == pytest.approx([0, 0.5, 0.25, 0.25])
    assert column(bars, "lagged_return_1") == pytest.approx([0, 0, 0.5, -0.25])
    assert column(bars, "distance_4") == pytest.approx([0, 0.25, 0, 0.375])
    assert column(bars, "drawdown_128") == pytest.approx([0, 0, -0.25, 0])
    assert column(bars, "strength_8") == pytest.approx([0, 1, 1 / 3, 0.6])
    assert column(bars, "downside_32") == pytest.approx([0, 0, 0.2, 1 / 9])
    assert column(bars, "range") == pytest.approx([0, 0.5, 0.25, 0.5])
    assert column(bars, "close_location") == pytest.approx([0, 1, -1, 1])


def test_under_difference_returns_prices_are_not_logged():
    assert column(bars_of([18.27, -37.63, 10.01], returns="difference"), "return_1") == pytest.approx(
        [0, -55.9, 47.64]
    )


def test_a_week_and_a_day_close_their_circles():
    bars = bars_of([1.0] * (24 * 7 + 1))
    day, week = column(bars, "day_sin"), column(bars, "week_cos")
    assert day[6] == pytest.approx(1)
    assert day[24] == day[0] == 0
    assert week[24 * 4] == pytest.approx(1)  # 1970-01-05 was the first Monday
    assert week[0] == week[-1]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 600), st.sampled_from(["percent", "difference"]), st.data())
def test_features_of_the_first_bars_are_the_first_features_bit_for_bit(rows, returns, data):
    bars = random_bars(rows, rows, returns)
    cut = data.draw(st.integers(1, rows))
    assert build_features(bars.head(cut)).tobytes() == build_features(bars)[:cut].tobytes()


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_the_future_changes_nothing_before_it(data):
    bars = random_bars(300, 5)
    cut = data.draw(st.integers(1, 299))
    scale = np.where(np.arange(300) < cut, 1.0, 10.0)
    prices = {name: getattr(bars, name) * scale for name in ("open", "high", "low", "close", "volume")}
    changed = build_features(replace(bars, **prices))
    assert changed[:cut].tobytes() == build_features(bars)[:cut].tobytes()
    assert np.any(changed[cut:] != build_features(bars)[cut:])


@pytest.mark.parametrize("returns", ["percent", "difference"])
@pytest.mark.parametrize(
    "close",
    [[5.0] * 200, [1e-300, 1e30] * 50, [1.0, 1 + 1e-16, 1.0] * 40, [7.0], [1e-320, 5.0, 1e30]],
    ids=["constant", "extreme", "rounding", "one bar", "denormal"],
)
@pytest.mark.parametrize("volume", [0.0, 1e30])
def test_every_valid_history_has_finite_features(close, returns, volume):
    assert np.isfinite(build_features(bars_of(close, [volume] * len(close), returns))).all()


def test_negative_prices_have_finite_and_moving_features():
    table = build_features(random_bars(400, 2, "difference"))
    assert np.isfinite(table).all()
    moving = {name for name, spread in zip(FEATURE_NAMES, table.std(axis=0), strict=True) if spread > 0}
    assert set(FEATURE_NAMES) - moving == {"gap"}  # these bars open at the last close


@pytest.mark.parametrize("returns", ["percent", "difference"])
@pytest.mark.parametrize("cut", [1, 37])
def test_after_the_warm_up_no_feature_depends_on_older_bars(returns, cut):
    bars = random_bars(WARM_UP + cut + 50, 3, returns)
    later = replace(
        bars,
        **{
            name: getattr(bars, name)[cut:]
            for name in ("timestamp", "open", "high", "low", "close", "volume")
        },
    )
    whole, short = build_features(bars)[cut:], build_features(later)
    assert np.array_equal(short[WARM_UP:], whole[WARM_UP:])
    assert not np.array_equal(short[WARM_UP - 1], whole[WARM_UP - 1])
