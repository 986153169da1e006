from dataclasses import replace

import numpy as np
import pyarrow.parquet as parquet
import pytest

from trainer.errors import DataError
from trainer.evaluation_file import EvaluationRows, read_evaluation, write_evaluation
from trainer.statistics.compounding import equity
from trainer.statistics.drawdown import max_drawdown
from trainer.statistics.sharpe import annualised_sharpe


def rows():
    return EvaluationRows(
        seed=np.array([0, 0, 0, 1], np.int64),
        fold=np.array([1, 0, 0, 0], np.int64),
        time=np.array([30, 20, 10, 10], np.int64) * 86_400_000_000_000 + 7,
        ret=np.array([0.03, 0.02, 0.01, -0.01]),
        position=np.array([1.0, 0.5, -1.0, 0.0]),
        benchmark=np.array([0.3, 0.2, 0.1, 0.1]),
        cost=np.array([0.0, 2e-4, 1e-4, 0.0]),
        impact=np.array([0.0, 1e-4, 0.0, 0.0]),
    )


def test_what_is_written_is_read_back_to_the_nanosecond_and_to_seven_digits(tmp_path):
    path = tmp_path / "evaluation.parquet"
    write_evaluation(path, rows())
    back = read_evaluation(path)
    for name in ("seed", "fold", "time", "position"):
        np.testing.assert_array_equal(getattr(back, name), getattr(rows(), name))
    for name in ("ret", "benchmark", "cost", "impact"):
        assert getattr(back, name).dtype == np.float64  # what is computed from it is not rounded again
        np.testing.assert_array_equal(getattr(back, name), getattr(rows(), name).astype(np.float32))
    assert [entry.name for entry in tmp_path.iterdir()] == ["evaluation.parquet"]


def test_a_file_older_than_the_costs_says_that_they_are_not_known(tmp_path):
    path = tmp_path / "evaluation.parquet"
    write_evaluation(path, rows())
    parquet.write_table(parquet.read_table(path).drop_columns(["cost", "impact"]), path)
    back = read_evaluation(path)
    np.testing.assert_array_equal(back.ret, rows().ret.astype(np.float32))
    assert np.isnan(back.cost).all()
    assert np.isnan(back.impact).all()


def test_a_file_with_returns_in_float64_is_read_as_it_is(tmp_path):
    path = tmp_path / "evaluation.parquet"
    write_evaluation(path, rows())
    table = parquet.read_table(path)
    parquet.write_table(table.set_column(3, "ret", [rows().ret]), path)
    assert parquet.read_table(path).schema.field("ret").type == "double"
    np.testing.assert_array_equal(read_evaluation(path).ret, rows().ret)


def drawn(count):
    draws = np.random.default_rng(0)
    return EvaluationRows(
        seed=np.zeros(count, np.int64),
        fold=np.arange(count) * 5 // count,
        time=np.arange(count) * 86_400_000_000_000,
        ret=draws.normal(0.0005, 0.01, count),
        position=draws.choice([-1.0, -0.5, 0.0, 0.5, 1.0], count),
        benchmark=draws.normal(0.0003, 0.01, count),
        cost=np.full(count, 1e-4),
        impact=np.zeros(count),
    )


def test_equity_and_statistics_of_the_file_are_those_of_the_walk(tmp_path):
    walked, path = drawn(2500), tmp_path / "evaluation.parquet"
    write_evaluation(path, walked)
    back = read_evaluation(path)
    np.testing.assert_allclose(equity(back.ret), equity(walked.ret), rtol=1e-6)
    assert max_drawdown(back.ret) == pytest.approx(max_drawdown(walked.ret), rel=1e-6)
    assert annualised_sharpe(back.ret, 252.0) == pytest.approx(annualised_sharpe(walked.ret, 252.0), rel=1e-6)


def test_a_bankruptcy_is_read_back_as_one(tmp_path):
    path = tmp_path / "evaluation.parquet"
    write_evaluation(path, replace(rows(), ret=np.array([-1.0, 0.02, -0.999999, 0.01])))
    assert (read_evaluation(path).ret <= -1.0).tolist() == [True, False, False, False]


def test_a_bar_takes_less_than_ten_bytes(tmp_path):
    path = tmp_path / "evaluation.parquet"
    write_evaluation(path, drawn(2500))
    assert path.stat().st_size < 2500 * 10 + 5000


def test_a_selection_is_in_time_order_over_the_folds():
    np.testing.assert_array_equal(rows().select(0).ret, [0.01, 0.02, 0.03])
    np.testing.assert_array_equal(rows().select(0, fold=0).position, [-1.0, 0.5])
    assert rows().select(7).ret.size == 0
    assert [own.ret.tolist() for own in rows().of_each_seed()] == [[0.01, 0.02, 0.03], [-0.01]]
    assert rows().longest_seed().ret.tolist() == [0.01, 0.02, 0.03]


def test_the_key_of_a_bar_is_its_fold_then_its_time():
    keys, day = rows().bar_keys(), 86_400_000_000_000
    assert keys.tolist() == [(1, 30 * day + 7), (0, 20 * day + 7), (0, 10 * day + 7), (0, 10 * day + 7)]
    assert np.argsort(keys, kind="stable").tolist() == [2, 3, 1, 0]


def test_a_missing_and_a_torn_file_are_one_sentence_naming_the_path(tmp_path):
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(b"PAR1 and no more")
    for path in (tmp_path / "absent.parquet", torn):
        with pytest.raises(DataError, match=path.name) as caught:
            read_evaluation(path)
        assert "\n" not in str(caught.value)


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="same R"):
        EvaluationRows(np.zeros(2, np.int64), np.zeros(1, np.int64), *[np.zeros(2)] * 6)
