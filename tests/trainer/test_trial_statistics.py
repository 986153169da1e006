"""The record of a finished trial: numbers worked by hand, the score's own numbers again, and the file."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from trainer.evaluation import MemberEvaluation
from trainer.members import Member
from trainer.statistics.bootstrap import joint_sharpe_intervals
from trainer.trial_statistics import TrialStatistics, read_statistics, write_statistics
from trainer.trial_summary import summarise_trial

YEAR = 252.0


def window(returns, positions, costs=None, market=None, bankrupt=False):
    """What a walk gives for returns and positions; every change of position is a trade."""
    positions = np.asarray(positions, dtype=np.float64)
    traded = np.abs(np.diff(positions, prepend=0.0))
    size = len(positions)
    market = np.full(size, 0.01) if market is None else np.asarray(market)
    return MemberEvaluation(
        bars=np.arange(size),
        returns=np.asarray(returns, dtype=np.float64),
        positions=positions,
        traded=traded,
        costs=np.zeros(size) if costs is None else np.asarray(costs),
        impact=np.zeros(size),
        buy_and_hold=market,
        close_returns=market,
        trades=int(np.count_nonzero(traded)),
        turnover=float(traded.sum()) + (0.0 if bankrupt else float(abs(positions[-1]))),
        bankrupt=bankrupt,
    )


def drawn(seed, size=300, mean=0.0005):
    draws = np.random.default_rng(seed)
    return window(draws.normal(mean, 0.01, size), draws.choice([-1.0, 0.0, 0.5], size))


def test_a_window_is_described_by_the_numbers_worked_by_hand():
    own = window(
        [-0.1, 0.2, 0.0, -0.1], [1.0, -0.5, 0.0, 0.5], [0.001, 0.002, 0.0, 0.001], [0.1, -0.2, 0.1, 0.0]
    )
    (fold,) = summarise_trial([Member(7, 0)], [own], YEAR).folds
    assert (fold.seed, fold.fold) == (7, 0)
    assert fold.earned.total_return == pytest.approx(0.9 * 1.2 * 0.9 - 1)
    assert fold.earned.max_drawdown == pytest.approx(-0.1)  # the first bar falls from the start capital
    assert fold.earned.sharpe == pytest.approx(0.0, abs=1e-12)
    assert (fold.conduct.bars, fold.conduct.trades, fold.conduct.turnover) == (
        4,
        4,
        1 + 1.5 + 0.5 + 0.5 + 0.5,
    )
    assert fold.conduct.exposure == pytest.approx(0.5)
    assert fold.conduct.net_exposure == pytest.approx(0.25)
    assert fold.conduct.hit_rate == pytest.approx(1 / 3)  # the bar without exposure does not count
    assert fold.conduct.cost_drag == pytest.approx(0.001 * YEAR)
    assert (fold.flat.sharpe, fold.flat.total_return, fold.flat.max_drawdown) == (None, 0.0, 0.0)
    assert fold.buy_and_hold.total_return == pytest.approx(1.1 * 0.8 * 1.1 - 1)
    assert fold.buy_and_hold.max_drawdown == pytest.approx(-0.2)


def test_a_seed_joins_its_folds_in_time_order_wherever_they_stand_in_the_stack():
    first, second = drawn(0, 40), drawn(1, 60)
    members = [Member(3, 1), Member(3, 0)]
    (seed,) = summarise_trial(members, [second, first], YEAR).seeds
    joined = np.concatenate([first.returns, second.returns])
    ratio = joined.mean() / joined.std(ddof=1)
    assert seed.earned.sharpe == pytest.approx(ratio * math.sqrt(YEAR))
    depth = (
        np.cumprod(1 + joined) / np.maximum.accumulate(np.concatenate([[1.0], np.cumprod(1 + joined)]))[1:]
    )
    assert seed.earned.max_drawdown == pytest.approx(depth.min() - 1)
    assert seed.standard_error == pytest.approx(math.sqrt((1 + ratio**2 / 2) / 100) * math.sqrt(YEAR))
    z = (joined - joined.mean()) / joined.std()
    variance = 1 - (z**3).mean() * ratio + ((z**4).mean() - 1) / 4 * ratio**2
    argument = ratio * math.sqrt(99) / math.sqrt(variance)
    assert seed.probability == pytest.approx(0.5 * math.erfc(-argument / math.sqrt(2)))
    assert seed.conduct.bars == 100


def test_the_trial_averages_its_seeds_and_tells_their_spread():
    statistics = summarise_trial([Member(0, 0), Member(1, 0)], [drawn(0), drawn(1)], YEAR)
    ratios = [seed.earned.sharpe for seed in statistics.seeds]
    assert statistics.sharpe == pytest.approx(sum(ratios) / 2)
    assert statistics.seed_spread == pytest.approx(abs(ratios[0] - ratios[1]) / math.sqrt(2))
    assert (statistics.bars, statistics.periods_per_year) == (300, YEAR)
    assert statistics.interval.low < statistics.sharpe < statistics.interval.high


def test_one_seed_has_the_interval_of_its_returns():
    own = drawn(4)
    statistics = summarise_trial([Member(0, 0)], [own], YEAR)
    expected = joint_sharpe_intervals(own.returns[:, None], YEAR).mean
    assert statistics.interval == statistics.seeds[0].interval == expected


def test_seeds_that_trade_alike_narrow_no_interval():
    own = drawn(4)
    alone = summarise_trial([Member(0, 0)], [own], YEAR)
    twice = summarise_trial([Member(0, 0), Member(1, 0)], [own, own], YEAR)
    ends = alone.interval.low, alone.interval.high
    assert (twice.interval.low, twice.interval.high) == pytest.approx(ends, rel=1e-12)


def test_a_seed_that_never_trades_is_described_without_a_ratio():
    statistics = summarise_trial(
        [Member(0, 0), Member(1, 0)], [window([0.0] * 20, [0.0] * 20), drawn(1, 20)], YEAR
    )
    flat = statistics.seeds[0]
    assert (flat.earned.sharpe, flat.interval, flat.probability, flat.kurtosis) == (None, None, None, None)
    assert (flat.conduct.hit_rate, flat.conduct.exposure) == (None, 0.0)
    assert statistics.sharpe == pytest.approx(statistics.seeds[1].earned.sharpe / 2)


def test_a_bankrupt_seed_ends_early_and_the_market_is_that_of_the_longest_seed():
    ruined = window([0.01, -1.0], [1.0, 1.0], bankrupt=True)
    statistics = summarise_trial([Member(0, 0), Member(1, 0)], [ruined, drawn(1, 40)], YEAR)
    assert statistics.seeds[0].conduct.bankrupt
    assert statistics.seeds[0].earned.total_return == -1.0
    assert statistics.bars == 40
    assert statistics.buy_and_hold.total_return == pytest.approx(1.01**40 - 1)


def test_the_record_survives_its_file_and_json_without_nan(tmp_path):
    members = [Member(0, 0), Member(0, 1)]
    statistics = summarise_trial(members, [window([0.0] * 20, [0.0] * 20), drawn(2, 20)], YEAR)
    write_statistics(tmp_path / "statistics.json", statistics)
    assert read_statistics(tmp_path / "statistics.json") == statistics
    assert [each.name for each in tmp_path.iterdir()] == ["statistics.json"]
    plain = json.loads(json.dumps(asdict(statistics), allow_nan=False))
    assert TrialStatistics.from_dict(plain) == statistics


@pytest.mark.parametrize("text", ["{", "{}", '{"periods_per_year": 1}', "[]"])
def test_a_file_that_holds_no_record_is_refused(tmp_path, text):
    path = tmp_path / "statistics.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"statistics\.json|Expecting"):
        read_statistics(path)
