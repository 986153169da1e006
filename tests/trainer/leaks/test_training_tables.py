"""Guards that look at what a training itself reads: its scalers, its deviations, the prices of its fills."""

import dataclasses

import pytest
import torch

from trainer import market_tables
from trainer.config import TrainerConfig
from trainer.data.scaler import fit_scaler
from trainer.leaks.guard import Judgement
from trainer.leaks.same_bar_fill import same_bar_fill
from trainer.leaks.scaler_window import scaler_window
from trainer.market_tables import MarketTables

CONFIG = TrainerConfig().with_overrides({"data.path": "sp500"})


@pytest.mark.parametrize(
    "fit",
    [
        lambda features, start, stop: fit_scaler(features, 0, len(features)),
        lambda features, start, stop: fit_scaler(features, start, stop + 1),
        lambda features, start, stop: fit_scaler(features, max(start - 1, 0), stop),
    ],
    ids=["all rows", "one row later", "one row earlier"],
)
def test_a_scaler_that_the_training_fits_outside_its_window_is_caught(market, folds, monkeypatch, fit):
    later = dataclasses.replace(
        folds, folds=tuple(dataclasses.replace(f, train_start=9) for f in folds.folds)
    )
    assert scaler_window(market, later, CONFIG).judgement is Judgement.CLEAN
    monkeypatch.setattr("trainer.market_tables.fit_scaler", fit)
    verdict = scaler_window(market, later, CONFIG)
    assert verdict.judgement is Judgement.LEAK
    assert "a scaler must be fitted" in verdict.message


def test_a_deviation_that_the_training_fits_outside_its_window_is_caught(market, folds, monkeypatch):
    build = MarketTables.build

    def of_all_rows(*arguments):
        tables = build(*arguments)
        everything = torch.std(tables.exact_bars.moves[:, 3], correction=0)
        return dataclasses.replace(tables, exact_sigma=everything.expand(tables.members))

    monkeypatch.setattr(MarketTables, "build", of_all_rows)
    verdict = scaler_window(market, folds, CONFIG)
    assert verdict.judgement is Judgement.LEAK
    assert "a deviation of returns must be fitted" in verdict.message


def test_folds_that_a_training_refuses_are_said_to_be_so(market, folds):
    short = CONFIG.with_overrides({"episode_length": 3000, "episodes": 4})
    verdict = scaler_window(market, folds, short)
    assert verdict.judgement is Judgement.WARNING
    assert "environment.episode_length" in verdict.message


@pytest.mark.parametrize("column", [0, 3], ids=["open", "close"])
@pytest.mark.parametrize("returns", ["percent", "difference"])
def test_a_fill_within_the_bar_of_the_decision_is_caught(market, folds, monkeypatch, column, returns):
    honest = market_tables.bar_moves

    def within(bars, data):
        """Moves whose one price is that of the bar before: known when the order is decided."""
        moves, notional = honest(bars, data)
        moves[1:, column] = moves[:-1, column]
        return moves, notional

    config = CONFIG.with_overrides({"returns": returns})
    assert same_bar_fill(market, folds, config).judgement is Judgement.CLEAN
    monkeypatch.setattr(market_tables, "bar_moves", within)
    verdict = same_bar_fill(market, folds, config)
    assert verdict.judgement is Judgement.LEAK
    assert "close of row 2515 must fill in row 2516" in verdict.message


def test_two_bars_are_enough_for_the_guard_of_fills(market, folds):
    two = dataclasses.replace(market, bars=market.bars.head(2))
    assert same_bar_fill(two, folds, CONFIG).judgement is Judgement.CLEAN
