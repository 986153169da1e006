from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.cell_numbers import read_numbers
from trainer.data.columns import ColumnRoles
from trainer.data.raw_table import RawTable
from trainer.errors import ConfigError, DataError

ROLES = ColumnRoles(0, None, (), 0, 0, 0, 0, None, None)


def numbers(cells, decimal=None, whole=False):
    lines = np.arange(2, len(cells) + 2)
    table = RawTable("f.csv", ("close",), (pa.chunked_array([cells]),), lines, "line", "CSV", ROLES, decimal)
    return read_numbers(table, 0, whole=whole).tolist()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_written_numbers_come_back_bit_for_bit_on_both_paths(values):
    cells = [repr(value) for value in values]
    assert numbers(cells) == values
    assert numbers([*cells, " n/a"])[:-1] == values  # an odd cell sends the column down the slow path
    assert numbers([cell.replace(".", ",") for cell in cells], decimal=",") == values


@pytest.mark.parametrize(
    ("cell", "decimal", "value"),
    [
        ("1,234.5", None, 1234.5),
        ("1,234,567", None, 1234567),
        ("-1,234.5", None, -1234.5),
        ("1.234,5", ",", 1234.5),
        ("1.234", ",", 1234),
        ("1 234,5", ",", 1234.5),
        ("1'234.5", None, 1234.5),
        ("1\u2019234.5", None, 1234.5),
        ("1,234", ".", 1234),
        ("+7", None, 7),
        ("1e3", None, 1000),
    ],
)
def test_one_number_has_many_spellings(cell, decimal, value):
    assert numbers([cell], decimal) == [value]


@pytest.mark.parametrize("cell", ["", "NaN", "null", "N/A", "None", "-"])
def test_nothing_has_many_spellings(cell):
    assert np.isnan(numbers(["1.5", cell])[1])


def test_a_count_with_one_comma_is_in_thousands():
    assert numbers(["12,345"], whole=True) == [12345]


@pytest.mark.parametrize("cell", ["1,234", "1,5", "12,34", "1.234.567"])
def test_a_sign_that_may_be_decimal_names_the_key(cell):
    with pytest.raises(ConfigError, match=r"data\.decimal: f\.csv, line 3, column close"):
        numbers(["7", cell])


@pytest.mark.parametrize("cell", ["abc", "$5", "1.2M", "5%", "1,2,3"])
def test_a_cell_that_is_no_number_is_named_by_line_and_value(cell):
    with pytest.raises(DataError, match=r"f\.csv, lines 3, 5 \(2 in all\), column close") as caught:
        numbers(["1", cell, "2", cell])
    assert repr(cell) in str(caught.value)


def test_thirty_seconds_are_not_taken_for_thousands():
    # 110'165 on a bond future is 110 + 16.5 / 32.
    with pytest.raises(DataError, match=r"lines 2, 3 \(2 in all\).* \"110'165\" may be 110 and 16.5"):
        numbers(["110'165", "109'317", "110"])
    assert numbers(["110'165", "109'417"]) == [110165, 109417]  # there is no 41st of 32
