import re
from dataclasses import replace

import numpy as np

from hpo.report.fold_table import fold_table
from trainer.evaluation_file import EvaluationRows
from trainer.reports import FoldScore, WalkForwardScore
from trainer.trial_statistics import Conduct, Earnings, FoldStatistics, TrialStatistics

FLAT = Earnings(None, 0.0, 0.0)
MARKET = Earnings(0.75, 0.0521, -0.1234)
CONDUCT = Conduct(250, 1234, 56.78, 0.62, -0.1, 0.517, 0.0123, False)


def statistics(*folds):
    return TrialStatistics(252.0, 500, 0.4, 0.1, None, FLAT, MARKET, (), folds)


def fold(seed, index, conduct=CONDUCT, market=MARKET):
    return FoldStatistics(seed, index, Earnings(-0.31, 0.081, -0.0456), conduct, FLAT, market)


def score(*pairs):
    folds = tuple(FoldScore(seed, index, 1.25, True, 17, 0.033, 250, 8.04, False) for seed, index in pairs)
    return WalkForwardScore(0.4, 0.3, ((0, 0.4),), 0.0, folds, 0, (), 2.0)


def bars(times):
    """One seed, a fold for each row of ``times``."""
    times = np.array(times, dtype="datetime64[ns]").astype(np.int64)
    size = times.size
    return EvaluationRows(
        np.zeros(size, np.int64),
        np.repeat(np.arange(len(times)), times.shape[1]),
        times.ravel(),
        *(np.zeros(size) for _ in range(5)),
    )


def lines(html):
    """Every row of the table as a list of its cells' text."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", html)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_every_fold_shows_each_seed_and_the_market_and_cash_on_the_same_bars():
    record = statistics(fold(0, 0), fold(1, 0), fold(0, 1))
    found = lines(fold_table(score((0, 0), (1, 0), (0, 1)), record, None))
    own = ["\N{MINUS SIGN}0.31", "8.1 %", "\N{MINUS SIGN}4.6 %", "1,234", "56.8", "62 %", "52 %", "1.23 %"]
    market = ["buy and hold", "0.75", "5.2 %", "\N{MINUS SIGN}12.3 %", *[""] * 5]
    flat = ["flat", "\N{EN DASH}", "0.0 %", "0.0 %", *[""] * 5]
    assert found[1:] == [
        ["Fold 0, 250 bars"], ["seed 0", *own], ["seed 1", *own], market, flat,
        ["Fold 1, 250 bars"], ["seed 0", *own], market, flat,
    ]  # fmt: skip


def test_the_market_is_that_of_a_seed_that_saw_every_bar():
    ruined = replace(CONDUCT, bars=20, bankrupt=True)
    record = statistics(fold(0, 0, ruined, Earnings(3.0, 0.9, 0.0)), fold(1, 0))
    html = fold_table(score((0, 0), (1, 0)), record, None)
    assert "seed 0, bankrupt after 20 bars" in html
    assert "0.75" in html
    assert "90.0 %" not in html


def test_what_is_not_defined_is_a_dash():
    idle = Conduct(250, 0, 0.0, 0.0, 0.0, None, 0.0, False)
    html = fold_table(score((0, 0)), statistics(fold(0, 0, idle)), None)
    assert '<td data-name="Hit rate">\N{EN DASH}</td>' in html


def test_every_number_carries_its_name_for_a_narrow_window():
    html = fold_table(score((0, 0)), statistics(fold(0, 0)), None)
    assert '<td data-name="Hit rate">52 %</td>' in html
    assert '<td data-name="Costs">1.23 %</td>' in html


def test_daily_bars_show_days():
    found = bars([["2020-01-02", "2020-06-30"], ["2020-07-01", "2020-12-31"]])
    html = fold_table(score((0, 0), (0, 1)), statistics(fold(0, 0), fold(0, 1)), found)
    assert "Fold 0: 2020-01-02 to 2020-06-30, 250 bars" in html
    assert "Fold 1: 2020-07-01 to 2020-12-31, 250 bars" in html


def test_intraday_bars_show_the_time_of_day_so_that_folds_of_one_day_differ():
    found = bars([["2020-01-02T09:00", "2020-01-02T12:00"], ["2020-01-02T13:00", "2020-01-03T02:00"]])
    html = fold_table(score((0, 0), (0, 1)), statistics(fold(0, 0), fold(0, 1)), found)
    assert "Fold 0: 2020-01-02 09:00 to 2020-01-02 12:00 UTC, 250 bars" in html
    assert "Fold 1: 2020-01-02 13:00 to 2020-01-03 02:00 UTC, 250 bars" in html


def test_without_a_record_the_table_has_what_the_score_says():
    html = fold_table(score((0, 0)), None, None)
    assert lines(html)[1:] == [["Fold 0, 250 bars"], ["seed 0", "1.25", "3.3 %", "", "17", "8.0", "", "", ""]]
    assert "More than this is not on record" in html
