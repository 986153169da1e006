import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from hpo.report.findings import find
from hpo.report.records import read_study
from hpo.report.trial_matrix import trial_matrix
from hpo.report.winner import winner_of
from trainer.statistics.bootstrap import joint_sharpe_intervals
from trainer.statistics.deflated_sharpe import deflated_sharpe, expected_maximum
from trainer.statistics.moments import moments
from trainer.statistics.sharpe import sharpe


def found(search):
    record = read_study(search.study, search.directory)
    return find(record, record.best, record.evaluation(record.best.number))


def test_the_deflated_ratio_counts_every_started_trial_and_the_spread_of_all_scored_ones(full):
    findings = found(full)
    best = full.study.best_trial.number
    returns = full.read(best).ravel()
    pruned = next(trial for trial in full.study.trials if trial.state.name == "PRUNED")
    ratios = [sharpe(full.read(number).ravel()) for number in range(10)]
    ratios += [pruned.user_attrs["score"]["per_seed"][0][1] / math.sqrt(252), 0.0]
    variance = np.var(ratios, ddof=1)
    expected = deflated_sharpe(sharpe(returns), 450, moments(returns), variance, 13)
    assert findings.started == 13
    assert findings.deflated == pytest.approx(expected, rel=1e-9)
    assert findings.luck == pytest.approx(math.sqrt(variance * 252) * expected_maximum(13), rel=1e-9)
    assert 1 <= findings.effective <= 13
    assert findings.deflated_effective >= findings.deflated


def test_a_single_trial_is_not_deflated(search):
    search.add(search.returns(0.001))
    findings = found(search)
    assert findings.deflated == findings.probability
    assert findings.luck == 0.0
    assert findings.overfitting is None


def test_one_score_among_several_trials_leaves_the_deflated_ratio_undefined(search):
    search.add(search.returns(0.001))
    search.add(state="FAIL", reason="killed")
    findings = found(search)
    assert findings.deflated is None
    assert findings.luck is None


def test_without_its_bars_the_winner_keeps_what_is_on_its_record(search):
    for drift in (0.001, 0.0, -0.001):
        search.add(search.returns(drift, seeds=2))
    record = read_study(search.study, search.directory)
    whole, kept = found(search), find(record, record.best, None)
    assert kept.winner == whole.winner
    assert (kept.ratio, kept.deflated, kept.luck) == (whole.ratio, whole.deflated, whole.luck)
    for name in ("overfitting", "over_cash", "effective"):
        assert getattr(kept, name) is None


def test_without_bars_and_record_the_winner_keeps_its_score_alone(search):
    search.add(search.returns(0.001))
    record = read_study(search.study, search.directory)
    findings = find(record, replace(record.best, statistics=None), None)
    assert findings.ratio == pytest.approx(record.best.value)
    for name in ("winner", "deflated", "probability", "overfitting", "over_cash"):
        assert getattr(findings, name) is None


def test_the_interval_is_the_one_of_the_record_and_bars_alone_give_the_same(search):
    """The joint interval of the mean over seeds, not a mean of the seeds' intervals."""
    search.add(search.returns(0.001, seeds=3))
    record = read_study(search.study, search.directory)
    rows = record.evaluation(0)
    stored = record.best.statistics.interval
    assert find(record, record.best, rows).winner.interval == stored
    bare = find(record, replace(record.best, statistics=None), rows).winner
    assert bare.interval == stored
    own = [joint_sharpe_intervals(rows.select(seed).ret[:, None], 252.0).mean for seed in range(3)]
    assert stored.high - stored.low < np.mean([each.high - each.low for each in own])


def test_record_and_bars_say_the_same_of_the_winner(search):
    search.add(search.returns(0.001, seeds=3))
    record = read_study(search.study, search.directory)
    own = winner_of(record.best.statistics, None, 252.0)
    bare = winner_of(None, record.evaluation(0), 252.0)
    for name in ("policy", "benchmark", "shape"):
        assert asdict(getattr(own, name)) == pytest.approx(asdict(getattr(bare, name)), rel=1e-12)
    assert own.serial_ratio == pytest.approx(bare.serial_ratio, rel=1e-12)


def test_the_matrix_holds_mean_returns_over_seeds_in_the_winners_order(search):
    one, two = search.returns(0.001), search.returns(0.0, seeds=2)
    search.add(one)
    search.add(two)
    record = read_study(search.study, search.directory)
    matrix = trial_matrix(record, record.evaluation(0))
    assert matrix.numbers == (0, 1)
    np.testing.assert_allclose(matrix.returns[:, 0], one.ravel())
    np.testing.assert_allclose(matrix.returns[:, 1], two.mean(axis=0).ravel())
    np.testing.assert_allclose(matrix.benchmark, search.market.ravel())


def test_bars_after_a_bankruptcy_count_zero_and_other_windows_are_left_out(search):
    search.add(search.returns(0.001))
    search.add(search.returns(0.0), keep=slice(0, 200))
    search.add(search.returns(0.0), shift=1)
    record = read_study(search.study, search.directory)
    matrix = trial_matrix(record, record.evaluation(0))
    assert matrix.numbers == (0, 1)
    assert (matrix.returns[200:, 1] == 0).all()
    assert (matrix.returns[:200, 1] != 0).all()
