from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trainer.config import WalkForwardConfig
from trainer.data.features import build_features
from trainer.data.scaler import fit_scaler
from trainer.data.synthetic import known_answer
from trainer.folds import split


def test_mean_and_deviation_are_those_of_the_window():
    features = np.array([[9.0, 5.0], [1.0, 5.0], [3.0, 5.0], [99.0, 6.0]], dtype=np.float32)
    scaler = fit_scaler(features, 1, 3)
    assert scaler.center.tolist() == [2, 5]
    assert scaler.inverse_scale.tolist() == [1, 0]


def test_rounding_noise_on_a_large_constant_is_not_a_scale():
    features = (1e6 + np.array([[0.0], [0.0625], [0.0]])).astype(np.float32)
    assert fit_scaler(features, 0, 3).inverse_scale.tolist() == [0]


@pytest.mark.parametrize("mode", ["rolling", "anchored"])
def test_the_last_test_fold_leaves_no_trace_in_any_training_fold(mode):
    bars = known_answer(1000, 1).bars
    config = WalkForwardConfig(train=400, purge=20, test=100, step=100, mode=mode, holdout_frac=0)
    folds = split(1000, config).folds
    last = slice(folds[-1].test_start, folds[-1].test_stop)

    def tenfold(values):
        changed = values.copy()
        changed[last] *= 10
        return changed

    names = ("open", "high", "low", "close", "volume")
    changed = replace(bars, **{name: tenfold(getattr(bars, name)) for name in names})
    before, after = build_features(bars), build_features(changed)
    assert before[last].tobytes() != after[last].tobytes()
    for fold in folds:
        train = slice(fold.train_start, fold.train_stop)
        assert before[train].tobytes() == after[train].tobytes()
        first, second = (fit_scaler(table, fold.train_start, fold.train_stop) for table in (before, after))
        assert first.center.tobytes() == second.center.tobytes()
        assert first.inverse_scale.tobytes() == second.inverse_scale.tobytes()
