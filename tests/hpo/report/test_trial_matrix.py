import numpy as np
import pytest

from hpo.report.trial_matrix import _aligned
from trainer.evaluation_file import EvaluationRows

COLUMNS = tuple(EvaluationRows.__dataclass_fields__)


def bars(returns, first=0):
    """Two folds of three bars for every row of ``returns`` [seeds, 6]."""
    seeds, count = returns.shape
    fold, time = np.tile(np.arange(count) // 3, seeds), np.tile(np.arange(count) + first, seeds)
    flat = np.zeros(returns.size)
    return EvaluationRows(np.repeat(np.arange(seeds), count), fold, time, returns.ravel(), *[flat] * 4)


def align(rows, base):
    keys = base.bar_keys()
    order = np.argsort(keys)
    return _aligned(rows, base, order, keys[order])


@pytest.mark.parametrize("seed", range(3))
def test_rows_in_any_order_give_the_same_mean_over_seeds(seed):
    generator = np.random.default_rng(seed)
    returns = generator.normal(size=(3, 6))
    rows, base = bars(returns), bars(np.zeros((1, 6)))
    shuffled = generator.permutation(18)
    mixed = EvaluationRows(*(getattr(rows, name)[shuffled] for name in COLUMNS))
    assert align(rows, base) == pytest.approx(returns.mean(axis=0))
    assert align(mixed, base) == pytest.approx(returns.mean(axis=0))


def test_bars_after_a_bankruptcy_count_zero():
    rows = bars(np.ones((1, 6)))
    short = EvaluationRows(*(getattr(rows, name)[:4] for name in COLUMNS))
    assert align(short, bars(np.zeros((1, 6)))).tolist() == [1, 1, 1, 1, 0, 0]


def test_other_test_windows_cannot_be_compared():
    assert align(bars(np.ones((1, 6)), first=1), bars(np.zeros((1, 6)))) is None
