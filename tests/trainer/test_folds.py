from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.config import WalkForwardConfig
from trainer.errors import ConfigError
from trainer.folds import Fold, require_min_folds, split

SIZES = {"train": 400, "purge": 20, "test": 100, "step": 100, "holdout_frac": 0.0}


def test_a_history_one_row_short_is_refused_with_both_numbers_and_all_keys():
    with pytest.raises(ConfigError, match="needs 520 rows, has 519") as caught:
        split(519, WalkForwardConfig(**SIZES))
    for key in ("walk_forward.train", "walk_forward.purge", "walk_forward.test"):
        assert key in str(caught.value)


def test_a_history_of_just_one_fold_has_one():
    assert split(520, WalkForwardConfig(**SIZES)).folds == (Fold(0, 400, 420, 520),)


@pytest.mark.parametrize("mode", ["rolling", "anchored"])
def test_a_thousand_rows_hold_five_folds_and_eighty_unused_rows(mode):
    cut = split(1000, WalkForwardConfig(**SIZES, mode=mode))
    assert [fold.test_start for fold in cut.folds] == [420, 520, 620, 720, 820]
    assert [fold.train_stop for fold in cut.folds] == [400, 500, 600, 700, 800]
    assert [fold.train_start for fold in cut.folds] == (
        [0] * 5 if mode == "anchored" else [0, 100, 200, 300, 400]
    )
    assert cut.unused_rows == 80


def test_folds_without_sizes_follow_from_the_rows():
    # search rows floor(.8 * 1003) = 802, first train 401, test floor((802 - 401 - 2) / 5) = 79
    cut = split(1003, WalkForwardConfig(folds=5))
    assert (cut.search_rows, cut.holdout_start, cut.unused_rows) == (802, 802, 4)
    assert cut.folds[0] == Fold(0, 401, 403, 482)
    assert cut.folds[4] == Fold(0, 717, 719, 798)


@pytest.mark.parametrize(
    ("share", "rows", "search"), [(0.9, 10, 1), (0.3, 10, 7), (0.2, 5031, 4024), (0.7, 100, 30)]
)
def test_search_rows_are_free_of_rounding(share, rows, search):
    config = WalkForwardConfig(holdout_frac=share, train=2, test=2, purge=0)
    if search < 4:
        with pytest.raises(ConfigError, match=rf"has {search} \({rows} less the hold-out"):
            split(rows, config)
    else:
        assert split(rows, config).search_rows == search


def test_a_single_fold_that_does_not_fit_stands_in_the_singular():
    with pytest.raises(ConfigError, match=r"walk_forward\.folds: 1 fold must have "):
        split(4, WalkForwardConfig(folds=1))


def test_too_many_folds_for_the_rows_name_the_key():
    with pytest.raises(ConfigError, match=r"walk_forward\.folds: 5 folds must have .* has 16 \(20 less"):
        split(20, WalkForwardConfig(folds=5))


def test_windows_that_overlap_are_refused():
    with pytest.raises(ConfigError, match=r"walk_forward\.step: `step >= test` must hold.*test=100"):
        split(1000, WalkForwardConfig(**{**SIZES, "step": 50}))


def test_a_window_of_one_row_has_no_return():
    with pytest.raises(ConfigError, match=r"walk_forward\.test: a window needs 2 rows"):
        split(1000, WalkForwardConfig(**{**SIZES, "test": 1}))


def test_too_few_folds_are_refused_where_a_minimum_counts():
    config = WalkForwardConfig(**SIZES)
    require_min_folds(split(720, config), config)
    with pytest.raises(ConfigError, match=r"walk_forward\.min_folds: .*2 < 3"):
        require_min_folds(split(719, config), config)


@settings(deadline=None, max_examples=100)
@given(
    rows=st.integers(0, 3000),
    folds=st.integers(1, 8),
    train=st.none() | st.integers(1, 800),
    test=st.none() | st.integers(1, 300),
    step=st.none() | st.integers(1, 400),
    purge=st.integers(0, 30),
    mode=st.sampled_from(["rolling", "anchored"]),
    holdout=st.sampled_from([0.0, 0.1, 0.2, 0.5]),
)
def test_any_split_keeps_its_windows_apart_and_off_the_hold_out(
    rows, folds, train, test, step, purge, mode, holdout
):
    config = WalkForwardConfig(
        folds=folds, train=train, test=test, step=step, purge=purge, mode=mode, holdout_frac=holdout
    )
    try:
        cut = split(rows, config)
    except ConfigError as error:
        refusal = error
    else:
        refusal = None
    if refusal is not None:
        assert refusal.key.startswith("walk_forward.")
        return
    assert cut.folds[-1].test_stop + cut.unused_rows == cut.search_rows == cut.holdout_start <= rows
    if test is None and step is None:
        assert len(cut.folds) == folds
    for fold in cut.folds:
        assert 0 <= fold.train_start < fold.train_stop == fold.test_start - purge
        assert fold.test_stop - fold.test_start >= 2
    for earlier, later in zip(cut.folds, cut.folds[1:], strict=False):
        assert earlier.test_stop <= later.test_start
