"""Every guard: silent on clean data, loud on a leak that is planted for it."""

import dataclasses

import numpy as np
import pytest

from trainer.config import TrainerConfig
from trainer.data.features import build_features
from trainer.data.market import load_market
from trainer.errors import LeakError
from trainer.folds import split
from trainer.leaks.causal_features import causal_features
from trainer.leaks.fold_order import fold_order
from trainer.leaks.foreseeing_column import foreseeing_column
from trainer.leaks.guard import Judgement
from trainer.leaks.guards import GUARDS, require_no_leak, verdicts
from trainer.leaks.same_bar_fill import same_bar_fill

CONFIG = TrainerConfig().with_overrides({"data.path": "sp500"})


@pytest.fixture(scope="module")
def returns(market):
    """[N] return of the bar after each; the last one, unknown, is 0."""
    close = market.bars.close
    return np.append(np.diff(close) / close[:-1], 0.0)


def with_column(market, values, name="sentiment"):
    """The market with one more column of its own."""
    column = np.asarray(values, dtype=np.float32)[:, None]
    return dataclasses.replace(
        market,
        features=np.concatenate([market.features, column], axis=1),
        feature_names=(*market.feature_names, name),
    )


@pytest.mark.parametrize("name", ["sp500", "nasdaq"])
def test_packaged_markets_pass_every_guard(name):
    config = TrainerConfig().with_overrides({"data.path": name})
    packaged = load_market(config)
    found = verdicts(packaged, split(len(packaged.bars), config.walk_forward), config)
    assert [verdict.judgement for verdict in found] == [Judgement.CLEAN] * len(GUARDS)


def test_hourly_currency_bars_pass_every_guard(tmp_path):
    """Five digits, quiet nights, weekends without bars, and one open in eight at the close before."""
    hours = np.arange(np.datetime64("2023-01-02T00"), np.datetime64("2023-09-30T00"))
    hours = hours[np.is_busday(hours.astype("datetime64[D]"))]
    draws = np.random.default_rng(11)
    hour = (hours - hours.astype("datetime64[D]")).astype(int)
    lively = np.where((hour >= 7) & (hour < 17), 0.0011, 0.0004)
    close = np.round(1.08 * np.exp(np.cumsum(lively * draws.standard_normal(len(hours)))), 5)
    slip = np.where(draws.random(len(hours)) < 1 / 8, 0.0, draws.choice([-1e-5, 1e-5, 2e-5], len(hours)))
    opened = np.round(np.append(1.08, close[:-1]) + slip, 5)
    high = np.round(np.maximum(opened, close) + lively * draws.random(len(hours)), 5)
    low = np.round(np.minimum(opened, close) - lively * draws.random(len(hours)), 5)
    ticks = (1000 * lively / 0.0004 * draws.lognormal(0, 0.4, len(hours))).astype(int)
    rows = [
        f"{each.item():%d.%m.%Y %H:%M},{o},{h},{low_},{c},{t}"
        for each, o, h, low_, c, t in zip(hours, opened, high, low, close, ticks, strict=True)
    ]
    path = tmp_path / "eurusd.csv"
    path.write_text("time,open,high,low,close,volume\n" + "\n".join(rows))
    keys = {"data.path": str(path), "data.date_format": "%d.%m.%Y %H:%M"}
    config = TrainerConfig().with_overrides(keys)
    market = load_market(config)
    assert market.bars.findings.warnings == ()
    found = verdicts(market, split(len(market.bars), config.walk_forward), config)
    assert [verdict.judgement for verdict in found] == [Judgement.CLEAN] * len(GUARDS)


def test_a_feature_of_the_whole_history_is_caught_and_named(market, folds):
    def standardised(bars):
        made = build_features(bars)
        made[:, 7] -= made[:, 7].mean()  # the mean of all bars, later ones included
        return made

    leaky = dataclasses.replace(market, features=standardised(market.bars))
    verdict = causal_features(leaky, folds, CONFIG, standardised)
    assert verdict.judgement is Judgement.LEAK
    assert repr(market.feature_names[7]) in verdict.message


def test_a_feature_shifted_by_one_bar_is_caught(market, folds):
    def shifted(bars):
        made = build_features(bars)
        made[:-1, 3] = made[1:, 3]
        return made

    leaky = dataclasses.replace(market, features=shifted(market.bars))
    assert causal_features(leaky, folds, CONFIG, shifted).judgement is Judgement.LEAK
    assert causal_features(leaky, folds, CONFIG).judgement is Judgement.LEAK  # nor are these the usual ones


def test_the_columns_built_here_are_looked_at_beside_one_that_the_data_bring(market, folds):
    noise = np.random.default_rng(4).standard_normal(len(market.bars))
    verdict = causal_features(with_column(market, noise), folds, CONFIG)
    assert verdict.judgement is Judgement.WARNING
    assert "with the data, column 'sentiment' came that cannot be built again" in verdict.message
    assert "48 columns built here: unchanged when the history is cut" in verdict.message
    leaky = dataclasses.replace(market, features=np.roll(market.features, -1, axis=0))
    planted = causal_features(with_column(leaky, noise), folds, CONFIG)
    assert planted.judgement is Judgement.LEAK
    assert "'return_1'" in planted.message


def test_columns_in_another_order_are_compared_by_name(market, folds):
    turned = dataclasses.replace(
        market, features=market.features[:, ::-1], feature_names=market.feature_names[::-1]
    )
    assert causal_features(turned, folds, CONFIG).judgement is Judgement.CLEAN


def test_columns_of_the_data_alone_are_said_to_be_beyond_this_check(market, folds):
    noise = np.random.default_rng(5).standard_normal((len(market.bars), 1)).astype(np.float32)
    own = dataclasses.replace(market, features=noise, feature_names=("news",))
    verdict = causal_features(own, folds, CONFIG)
    assert verdict.judgement is Judgement.WARNING
    assert "'news'" in verdict.message
    assert "0 columns built here: none" in verdict.message


@pytest.mark.parametrize(
    "disguise",
    [
        lambda known, noise: known,
        lambda known, noise: -1e-3 * known + 0.5,
        lambda known, noise: np.sign(known),
        lambda known, noise: np.exp(40.0 * known),
        lambda known, noise: known + known.std() * noise,
        lambda known, noise: np.append(known[1:], 0.0),  # two bars ahead
        lambda known, noise: np.cumsum(known),  # tomorrow's level: only its changes foretell
    ],
    ids=["plain", "scaled and turned", "sign", "curved", "noisy", "two ahead", "level"],
)
def test_an_oracle_is_caught_in_every_disguise_and_named(market, folds, returns, disguise):
    noise = np.random.default_rng(0).standard_normal(len(returns))
    planted = with_column(market, disguise(returns, noise))
    verdict = foreseeing_column(planted, folds, CONFIG)
    assert verdict.judgement is Judgement.LEAK
    assert "sentiment" in verdict.message
    with pytest.raises(LeakError, match="sentiment"):
        require_no_leak(planted, folds, CONFIG)


def test_tomorrows_close_as_a_column_is_caught(market, folds):
    planted = with_column(market, np.append(market.bars.close[1:], market.bars.close[-1]), "close_target")
    assert foreseeing_column(planted, folds, CONFIG).judgement is Judgement.LEAK


def test_an_oracle_in_the_volume_is_caught(market, folds, returns):
    bars = dataclasses.replace(market.bars, volume=1e6 * np.exp(10.0 * returns))
    verdict = foreseeing_column(dataclasses.replace(market, bars=bars), folds, CONFIG)
    assert verdict.judgement is Judgement.LEAK
    assert "volume" in verdict.message


def test_yesterdays_return_and_noise_are_no_oracles(market, folds, returns):
    known = np.concatenate([[0.0], returns[:-1]])
    assert foreseeing_column(with_column(market, known), folds, CONFIG).judgement is Judgement.CLEAN
    draws = np.random.default_rng(1)
    for _ in range(20):
        noise = draws.standard_normal(len(returns))
        assert foreseeing_column(with_column(market, noise), folds, CONFIG).judgement is Judgement.CLEAN


def test_bounce_between_bid_and_ask_is_no_leak_but_worth_a_look(market, folds):
    """Prices that only bounce: neighbouring returns have a correlation of -.5, the largest honest one."""
    sides = np.where(np.random.default_rng(2).random(len(market.bars)) < 0.5, 1.0, -1.0)
    close = 100.0 + 0.05 * sides
    bars = dataclasses.replace(market.bars, open=close, high=close, low=close, close=close)
    bouncing = dataclasses.replace(market, bars=bars, features=build_features(bars))
    assert foreseeing_column(bouncing, folds, CONFIG).judgement is Judgement.WARNING


def test_the_hold_out_is_not_read(market, folds, returns):
    column = np.random.default_rng(3).standard_normal(len(returns))
    column[folds.holdout_start :] = returns[folds.holdout_start :]
    hidden = with_column(market, column)
    clean = with_column(market, np.where(np.arange(len(column)) < folds.holdout_start, column, 0.0))
    assert foreseeing_column(hidden, folds, CONFIG) == foreseeing_column(clean, folds, CONFIG)


def test_a_market_made_to_be_predictable_is_not_judged():
    config = TrainerConfig().with_overrides({"data.path": "synthetic:known_answer:600:1"})
    made = load_market(config)
    verdict = foreseeing_column(made, split(len(made.bars), config.walk_forward), config)
    assert verdict.judgement is Judgement.CLEAN
    assert "by design" in verdict.message


def test_opens_that_repeat_the_close_are_no_price_to_fill_at(market, folds):
    opens = np.concatenate([market.bars.open[:1], market.bars.close[:-1]])
    bars = dataclasses.replace(market.bars, open=opens)
    repeated = dataclasses.replace(market, bars=bars, features=build_features(bars))
    at_open = CONFIG.with_overrides({"environment.fill": "next_open"})
    at_close = CONFIG.with_overrides({"environment.fill": "next_close"})
    verdict = same_bar_fill(repeated, folds, at_open)
    assert verdict.judgement is Judgement.WARNING
    assert 'environment.fill = "next_close"' in verdict.message
    clean = same_bar_fill(repeated, folds, at_close)
    assert clean.judgement is Judgement.CLEAN
    assert (
        clean.message == "market orders fill at the next close; 100.0 % of the opens equal the close before"
    )
    assert require_no_leak(repeated, folds, at_open) == (f"same-bar fill: {verdict.message}",)


@pytest.mark.parametrize(
    "change",
    [
        lambda fold, last: {"test_start": fold.train_stop},  # no purge
        lambda fold, last: {"train_stop": fold.test_start + 5},  # trains on what it tests
        lambda fold, last: {"test_start": fold.test_start - 40, "train_stop": fold.train_stop - 40},  # twice
        lambda fold, last: {"test_stop": last + 1},  # a row of the hold-out
    ],
    ids=["no purge", "trained on test", "tested twice", "hold-out"],
)
def test_folds_out_of_order_are_caught(market, folds, change):
    fold = folds.folds[-1]
    moved = dataclasses.replace(fold, **change(fold, folds.holdout_start))
    wrong = dataclasses.replace(folds, folds=(*folds.folds[:-1], moved))
    assert fold_order(market, folds, CONFIG).judgement is Judgement.CLEAN
    assert fold_order(market, wrong, CONFIG).judgement is Judgement.LEAK


def test_no_purge_at_all_is_a_warning(market):
    config = CONFIG.with_overrides({"purge": 0})
    verdict = fold_order(market, split(len(market.bars), config.walk_forward), config)
    assert verdict.judgement is Judgement.WARNING
    assert "walk_forward.purge" in verdict.message
