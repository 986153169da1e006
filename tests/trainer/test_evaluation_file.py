import numpy as np
import pyarrow.parquet as parquet
import pytest

from trainer.errors import DataError
from trainer.evaluation_file import EvaluationRows, read_evaluation, write_evaluation


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


def test_what_is_written_is_read_back_to_the_nanosecond(tmp_path):
    path = tmp_path / "evaluation.parquet"
    write_evaluation(path, rows())
    back = read_evaluation(path)
    for name in ("seed", "fold", "time", "ret", "position", "benchmark", "cost", "impact"):
        np.testing.assert_array_equal(getattr(back, name), getattr(rows(), name))
    assert [entry.name for entry in tmp_path.iterdir()] == ["evaluation.parquet"]


def test_a_file_older_than_the_costs_says_that_they_are_not_known(tmp_path):
    path = tmp_path / "evaluation.parquet"
    write_evaluation(path, rows())
    parquet.write_table(parquet.read_table(path).drop_columns(["cost", "impact"]), path)
    back = read_evaluation(path)
    np.testing.assert_array_equal(back.ret, rows().ret)
    assert np.isnan(back.cost).all()
    assert np.isnan(back.impact).all()


def test_a_selection_is_in_time_order_over_the_folds():
    np.testing.assert_array_equal(rows().select(0).ret, [0.01, 0.02, 0.03])
    np.testing.assert_array_equal(rows().select(0, fold=0).position, [-1.0, 0.5])
    assert rows().select(7).ret.size == 0


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
