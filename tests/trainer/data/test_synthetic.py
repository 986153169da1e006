from __future__ import annotations

import numpy as np
import pytest

from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.data.synthetic import NOISE, known_answer, no_signal, planted, synthetic_market
from trainer.errors import ConfigError

MAKERS = [known_answer, no_signal, planted]


def returns_after(market):
    close = market.bars.close
    return (close[1:] / close[:-1] - 1) / NOISE, market.features[:-1, 0].astype(np.float64)


def test_the_signal_is_autoregressive_with_unit_deviation():
    x = known_answer(200_000, 0).features[:, 0].astype(np.float64)
    assert x.std() == pytest.approx(1, abs=0.03)
    assert np.corrcoef(x[1:], x[:-1])[0, 1] == pytest.approx(0.9, abs=0.005)


def test_the_next_return_follows_the_signal_with_strength_three_tenths():
    returns, x = returns_after(known_answer(200_000, 0))
    assert np.polyfit(x, returns, 1)[0] == pytest.approx(0.3, abs=0.01)
    assert (returns - 0.3 * x).std() == pytest.approx(1, abs=0.01)


def test_without_a_signal_the_next_return_does_not_follow_it():
    returns, x = returns_after(no_signal(200_000, 0))
    assert np.corrcoef(x, returns)[0, 1] == pytest.approx(0, abs=0.01)


def test_the_planted_feature_tells_the_next_sign():
    returns, told = returns_after(planted(500, 0))
    assert np.array_equal(np.sign(returns), told)


@pytest.mark.parametrize("maker", MAKERS)
def test_bars_are_valid_and_open_at_the_last_close(maker):
    bars = maker(500, 3).bars
    assert np.array_equal(bars.open[1:], bars.close[:-1])
    assert np.all(bars.low < np.minimum(bars.open, bars.close))
    assert np.all(bars.high > np.maximum(bars.open, bars.close))
    assert np.all(np.diff(bars.timestamp) > 0)


@pytest.mark.parametrize("maker", MAKERS)
def test_a_seed_names_one_market(maker):
    assert maker(300, 4).data_hash == maker(300, 4).data_hash
    assert len({maker(300, seed).data_hash for seed in range(5)}) == 5


@pytest.mark.parametrize("path", ["synthetic:planted:300:2", "planted:300:2"])
def test_a_market_is_reached_by_its_name(path):
    market = load_market(TrainerConfig().with_overrides({"data.path": path, "metrics.periods_per_year": 99}))
    assert market.data_hash == planted(300, 2).data_hash
    assert market.periods_per_year == 99


@pytest.mark.parametrize("path", ["synthetic:nothing", "synthetic:planted:x", "synthetic:planted:1"])
def test_a_wrong_name_is_refused(path):
    with pytest.raises(ConfigError, match=r"data\.path"):
        load_market(TrainerConfig().with_overrides({"data.path": path}))


@pytest.mark.parametrize("rows", [1, 2_000_001, 10**14])
def test_a_synthetic_market_of_impossible_length_is_refused(rows):
    with pytest.raises(ConfigError, match=r"data\.path: `2 <= rows <= 2000000` must hold"):
        synthetic_market(f"synthetic:no_signal:{rows}")
