"""Signals: equal to the evaluation on a test window, causal, and one decision for every bar."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from trainer.data.features import WARM_UP
from trainer.errors import CheckpointError, ConfigError
from trainer.evaluation_file import EVALUATION_FILE, read_evaluation
from trainer.file_names import WEIGHTS
from trainer.folds import split
from trainer.policy_file import read_policy
from trainer.target_positions import TargetPositions, first_row, stamp, target_positions, to_csv


def until(market, rows):
    return replace(market, bars=market.bars.head(rows), features=market.features[:rows])


@pytest.fixture(scope="module")
def market(random_market):
    return random_market(500, 5)


@pytest.fixture(scope="module")
def folder(train_tiny, market):
    return train_tiny(market, seeds=2)


@pytest.fixture(scope="module")
def policy(folder):
    return read_policy(folder / WEIGHTS)


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"dtype": "float64", "use_iql": False},
        {"actions_per_branch": (3, 3, 3, 3), "fill": "next_close"},
        {"actions_per_branch": (5,), "returns": "difference"},
    ],
    ids=["default", "float64", "four branches", "difference"],
)
def test_a_signal_on_the_bars_of_a_test_fold_is_the_evaluation_bit_for_bit(market, train_tiny, overrides):
    folder = train_tiny(market, seeds=2, seed=7, **overrides)
    policy = read_policy(folder / WEIGHTS)
    rows = read_evaluation(folder / EVALUATION_FILE)
    window = split(500, policy.config.walk_forward).folds[2]
    targets = target_positions(policy, until(market, window.test_stop), window.test_start)
    assert targets.seeds == (7, 8)
    for position, seed in zip(targets.position, targets.seeds, strict=True):
        evaluated = rows.select(seed, fold=2)
        assert position[0] == 0
        assert np.array_equal(position[1:], evaluated.position)
        assert np.array_equal(targets.time[1:], evaluated.time)
    assert np.unique(targets.target).size > 1


def test_a_wild_market_bankrupts_the_signal_where_it_bankrupts_the_evaluation(random_market, train_tiny):
    market = random_market(300, 1, wild=True)
    folder = train_tiny(market, seeds=3)
    policy, rows = read_policy(folder / WEIGHTS), read_evaluation(folder / EVALUATION_FILE)
    window = split(300, policy.config.walk_forward).folds[2]
    targets = target_positions(policy, until(market, window.test_stop), window.test_start)
    bankrupt = 0
    for row, seed in enumerate(targets.seeds):
        evaluated = rows.select(seed, fold=2)
        size = len(evaluated.ret)
        if evaluated.ret[-1] > -1:
            assert targets.alive[row].all()
            continue
        bankrupt += 1
        assert np.array_equal(targets.position[row, 1:size], evaluated.position[:-1])
        assert targets.alive[row].tolist() == [True] * size + [False] * (len(targets.time) - size)
        assert not targets.position[row, size:].any()
        assert not targets.target[row, size:].any()
    assert bankrupt > 0


def with_steps(market, seconds):
    time = np.concatenate([[0], np.cumsum(seconds)]) * 10**9
    return replace(market, bars=replace(market.bars, timestamp=time.astype(np.int64)))


@pytest.mark.parametrize("step", [3600, 60_000, 115_200, 604_800])
def test_bars_of_another_step_than_the_training_had_are_refused(policy, market, step):
    with pytest.raises(ConfigError) as refusal:
        target_positions(policy, with_steps(market, [step] * 499), 200)
    assert str(refusal.value) == (
        f"--data: signals need the step that was trained on, 86400 s between bars (median), but test has "
        f"{step} s; give bars of 86400 s"
    )


def test_holes_and_uneven_months_are_no_other_step(policy, market):
    day = 86_400
    weeks = ([day] * 4 + [3 * day]) * 100  # no bar on Saturdays and Sundays
    assert target_positions(policy, with_steps(market, weeks[:499]), 499).target.shape == (2, 1)
    months = replace(policy, step=31 * 86_400.0)
    shorter = with_steps(market, [28 * day, 30 * day, 30 * day, 31 * day] * 124 + [28 * day] * 3)
    assert target_positions(months, shorter, 499).target.shape == (2, 1)


def test_bars_by_volume_keep_no_step_so_that_any_others_are_taken(policy, market):
    waits = np.random.default_rng(0).exponential(3600.0, 499)
    assert with_steps(market, waits).bars.regular_step is None
    assert target_positions(replace(policy, step=None), with_steps(market, waits), 499).target.shape == (2, 1)


def test_hours_of_a_session_keep_a_step(market):
    session = ([3600] * 6 + [64_800]) * 72
    assert with_steps(market, session[:499]).bars.regular_step == 3600.0


def test_a_policy_of_before_the_step_was_kept_takes_any_bars(policy, market):
    old = replace(policy, step=None)
    assert target_positions(old, with_steps(market, [60] * 499), 499).target.shape == (2, 1)


@pytest.mark.parametrize("rows", [131, 200, 499])
def test_a_later_bar_changes_no_earlier_signal(policy, market, rows):
    whole, cut = target_positions(policy, market, 130), target_positions(policy, until(market, rows), 130)
    assert cut.target.shape == (2, rows - 130)
    for name in ("position", "target", "order", "urgency"):
        assert np.array_equal(getattr(cut, name), getattr(whole, name)[:, : rows - 130])


def test_the_newest_bar_alone_gets_a_signal_from_flat(policy, market):
    targets = target_positions(policy, market, 499)
    assert targets.position.tolist() == [[0.0], [0.0]]
    assert targets.time.tolist() == [market.bars.timestamp[499]]


def test_market_orders_fill_as_in_training_whatever_the_new_source_would_do(market, train_tiny):
    closing = replace(market, default_fill="next_close")
    policy = read_policy(train_tiny(closing, actions_per_branch=(5,)) / WEIGHTS)
    assert policy.fill == "next_close"
    ours, theirs = (policy.walk(each, 200, 300).evaluation.members[0].returns for each in (market, closing))
    opening = replace(policy, fill="next_open").walk(market, 200, 300).evaluation.members[0].returns
    assert np.array_equal(ours, theirs)
    assert not np.array_equal(ours, opening)


def test_other_features_are_refused(policy, market):
    other = replace(market, feature_names=("a", "b", "c"))
    with pytest.raises(
        CheckpointError, match=r"reads 3 features \(f0, f1, f2\), but test gives 3 \(a, b, c\)"
    ):
        target_positions(policy, other, 200)
    with pytest.raises(CheckpointError, match="features of version 0, but this foxtune makes version 1"):
        target_positions(replace(policy, feature_version=0), market, 200)


def test_a_walk_begins_after_the_warm_up_unless_told_a_later_time(market):
    time = market.bars.timestamp
    assert first_row(market, None) == WARM_UP
    assert first_row(market, int(time[200])) == 200
    assert first_row(market, int(time[200]) + 1) == 201
    with pytest.raises(
        ConfigError, match="128 bars of warm-up before the first signal, but got 127; begin at"
    ):
        first_row(market, int(time[127]))
    with pytest.raises(ConfigError, match="no bar is that late, the last is of 1971-05-15T00:00:00Z"):
        first_row(market, int(time[-1]) + 1)
    with pytest.raises(ConfigError, match="test has 128 bars; prepend older bars"):
        first_row(until(market, 128), None)


def test_the_csv_holds_the_mean_and_every_seed():
    targets = TargetPositions(
        time=np.array([0, 1_500_000_000]),
        seeds=(3, 9),
        position=np.array([[0.0, 0.25], [0.0, -1.0]]),
        target=np.array([[0.25, 0.5], [-1.0, 0.0]]),
        order=np.array([[0, 1], [2, 0]]),
        urgency=np.array([[0, 1], [2, 0]]),
        alive=np.array([[True, True], [True, False]]),
    )
    first, second = csv.DictReader(io.StringIO(to_csv(targets)))
    assert list(first) == [
        "timestamp",
        "target",
        "seed_3_target",
        "seed_3_position",
        "seed_3_order",
        "seed_3_urgency",
        "seed_9_target",
        "seed_9_position",
        "seed_9_order",
        "seed_9_urgency",
    ]
    assert list(first.values()) == [
        *("1970-01-01T00:00:00Z", "-0.375"),
        *("0.25", "0.0", "market", "patient"),
        *("-1.0", "0.0", "adaptive", "urgent"),
    ]
    assert list(second.values()) == [
        *("1970-01-01T00:00:01.500000000Z", "0.25"),
        *("0.5", "0.25", "limit", "normal"),
        *("0.0", "-1.0", "", ""),
    ]


def test_branches_that_are_not_there_have_no_columns():
    one = np.array([[0.5]])
    targets = TargetPositions(np.array([0]), (0,), one, one, None, None, one > 0)
    assert to_csv(targets).splitlines()[0] == "timestamp,target,seed_0_target,seed_0_position"
    assert stamp(86_400 * 10**9) == "1970-01-02T00:00:00Z"
