"""Numbers out of cells: decimal signs, thousands separators and the many spellings of nothing."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.data.raw_table import RawTable
from trainer.errors import ConfigError, DataError

Floats = NDArray[np.float64]

EMPTY = frozenset({"", "nan", "null", "none", "na", "n/a", "#n/a", "-", "--", "nat"})
GROUPED_POINT = re.compile(r"^[+-]?\d{1,3}([,'\u2019 \u00a0\u202f]\d{3})+(\.\d*)?$")
GROUPED_COMMA = re.compile(r"^[+-]?\d{1,3}([.'\u2019 \u00a0\u202f]\d{3})+(,\d*)?$")
ONE_COMMA_GROUP = re.compile(r"^[+-]?\d{1,3},\d{3}$")
COMMA_DECIMAL = re.compile(r"^[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+$")
POINT_GROUPS = re.compile(r"^[+-]?\d{1,3}(\.\d{3}){2,}$")
THIRTY_SECONDS = re.compile(r"^(\d{2,3})'(([0-2]\d|3[01])[0257])$")  # the last digit: quarters of one, cut
QUARTERS = {"0": 0.0, "2": 0.25, "5": 0.5, "7": 0.75}
SEPARATORS = str.maketrans("", "", "'\u2019 \u00a0\u202f")


def read_numbers(table: RawTable, index: int, *, whole: bool = False) -> Floats:
    """Reads one column as float64 [N]; empty cells become NaN.

    Args:
        table: The cells.
        index: The column.
        whole: The column counts things (volume), so that ``12,345`` can only be twelve thousand.

    Raises:
        ConfigError: Naming ``data.decimal`` where the decimal sign is another or cannot be told.
        DataError: Naming the first lines whose cell is no number.
    """
    import pyarrow as pa

    column = table.columns[index]
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _from_text(table, index, column, whole)
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if not _is_numeric(column.type):
        name = table.names[index]
        raise DataError(
            f"{table.source}: column {name} holds {column.type}, not numbers; store it as float64"
        )
    if pa.types.is_decimal(column.type):
        # Arrow multiplies by a power of ten, which makes 99.99 to 99.99000000000001; its text is exact.
        column = column.cast(pa.string())
    return np.array(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _is_numeric(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _from_text(table: RawTable, index: int, column: Any, whole: bool) -> Floats:
    import pyarrow as pa

    if table.decimal != ",":
        try:
            return np.array(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
        except pa.ArrowInvalid:  # one odd cell is enough: look at each
            pass
    cells = [cell or "" for cell in column.to_pylist()]
    values = [_number(cell, table.decimal) for cell in cells]
    bad = [row for row, value in enumerate(values) if value is None]
    if bad:
        raise _not_a_number(table, index, bad, cells)
    if not whole and table.decimal is None:
        _refuse_ambiguous_commas(table, index, cells)
    if not whole:
        _refuse_thirty_seconds(table, index, cells)
    return np.array(values, dtype=np.float64)


def _number(cell: str, decimal: str | None) -> float | None:
    text = cell.strip()
    if text.casefold() in EMPTY:
        return np.nan
    if decimal == ",":
        grouped, group, sign = GROUPED_COMMA, ".", ","
    else:
        grouped, group, sign = GROUPED_POINT, ",", "."
    if grouped.match(text):
        text = text.replace(group, "").translate(SEPARATORS)
    elif group in text:
        return None
    try:
        return float(text.replace(sign, "."))
    except ValueError:
        return None


def _refuse_ambiguous_commas(table: RawTable, index: int, cells: list[str]) -> None:
    """``1,234`` is a thousand or about one; a decimal point or a second group anywhere settles it."""
    with_comma = [row for row, cell in enumerate(cells) if "," in cell]
    settled = any("." in cell or cell.count(",") > 1 for cell in cells)
    if with_comma and not settled and ONE_COMMA_GROUP.match(cells[with_comma[0]].strip()):
        raise ConfigError(
            "data.decimal",
            f"{table.source}, {table.where(with_comma[:1])}, column {table.names[index]}: "
            f'{cells[with_comma[0]]!r} may mean thousands or decimals; set data.decimal = "." or ","',
        )


def _refuse_thirty_seconds(table: RawTable, index: int, cells: list[str]) -> None:
    """``110'165`` is 110 and 16.5 thirty-seconds on a bond future, or a hundred and ten thousand."""
    rows = [row for row, cell in enumerate(cells) if "'" in cell]
    found = [THIRTY_SECONDS.match(cells[row].strip()) for row in rows]
    if rows and all(found) and (first := found[0]):
        part = int(first[2]) // 10 + QUARTERS[first[2][-1]]
        where = f"{table.source}, {table.where(rows)}, column {table.names[index]}"
        raise DataError(
            f"{where}: {first[0]!r} may be {first[1]} and {part:g} thirty-seconds, or thousands; write plain "
            "numbers"
        )


def _not_a_number(table: RawTable, index: int, bad: list[int], cells: list[str]) -> ConfigError | DataError:
    cell = cells[bad[0]]
    where = f"{table.source}, {table.where(bad)}, column {table.names[index]}"
    if table.decimal is None and COMMA_DECIMAL.match(cell.strip()):
        return ConfigError("data.decimal", f'{where}: {cell!r} has a decimal comma; set data.decimal = ","')
    if table.decimal is None and POINT_GROUPS.match(cell.strip()):
        words = f'{cell!r} has points between thousands; set data.decimal = ","'
        return ConfigError("data.decimal", f"{where}: {words}")
    if table.decimal == "," and "." in cell:
        return ConfigError("data.decimal", f'{where}: {cell!r} has a decimal point; set data.decimal = "."')
    return DataError(f"{where}: {cell!r} is not a number; mend the cell")
