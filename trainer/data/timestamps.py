"""Timestamps out of cells: dates as written, or epoch numbers, always as int64 nanoseconds."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.config import DataConfig
from trainer.data.date_formats import digit_format, fault_of, propose_formats
from trainer.data.epoch_numbers import EARLIEST, GRACE, read_epoch
from trainer.data.raw_table import RawTable
from trainer.errors import ConfigError, DataError

Nanoseconds = NDArray[np.int64]

DAY_NS = 86400 * 10**9
ISO_DATE = r"^\d{4}-\d{1,2}-\d{1,2}([ T]|$)|^\d{8}(T|$)"
OFFSET = r"\d[ ]?(Z|z|[+-]\d{2}(:?\d{2})?)$"


@dataclass(frozen=True)
class Stamps:
    """Timestamps of all rows, in file order.

    Attributes:
        instant: [N] int64 ns; UTC if ``aware``, else on the local clock.
        aware: The cells say which instant they mean.
        unit: How they were written.
    """

    instant: Nanoseconds
    aware: bool
    unit: str

    @property
    def date_only(self) -> bool:
        """Every stamp is a midnight: daily bars, whose zone does not matter."""
        return not self.aware and bool(np.all(self.instant % DAY_NS == 0))


def read_timestamps(table: RawTable, config: DataConfig) -> Stamps:
    """Reads the timestamp column, with the clock column where date and time stand apart.

    Raises:
        ConfigError: Naming ``data.timestamp_unit`` or ``data.date_format``.
        DataError: For cells that are no timestamp.
    """
    import pyarrow as pa

    column = table.columns[table.roles.timestamp]
    kind = column.type
    rows = np.flatnonzero(column.is_null(nan_is_null=True).to_numpy())
    if len(rows):
        raise DataError(f"{_where(table, rows)}: the timestamp is empty; fill it or remove the row")
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        stamps = _from_instants(table, column)
    elif pa.types.is_integer(kind):
        stamps = _from_text(table, column.cast(pa.string()), config)
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        stamps = _from_fractions(table, column, config)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        stamps = _from_text(table, column, config)
    else:
        raise DataError(
            f"{table.source}: column {table.names[table.roles.timestamp]} holds {kind}, not timestamps"
        )
    _check_range(table, stamps)
    _check_clock(table, stamps)
    return stamps


def _where(table: RawTable, rows: Any) -> str:
    return f"{table.source}, {table.where(rows)}, column {table.names[table.roles.timestamp]}"


def _from_instants(table: RawTable, column: Any) -> Stamps:
    import pyarrow as pa

    zone = column.type.tz if pa.types.is_timestamp(column.type) else None
    try:
        instant = column.cast(pa.timestamp("ns", tz=zone)).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        raise DataError(
            f"{table.source}, column {table.names[table.roles.timestamp]}: a date is outside 1900 to now + "
            "2 days; mend the column"
        ) from None
    return Stamps(np.array(instant), zone is not None, f"{column.type}")


def _from_fractions(table: RawTable, column: Any, config: DataConfig) -> Stamps:
    import pyarrow as pa

    if pa.types.is_floating(column.type) and column.type.bit_width < 64:
        raise DataError(
            f"{table.source}: column {table.names[table.roles.timestamp]} holds {column.type}, which rounds "
            "times by up to minutes; store it as int64 or timestamp"
        )
    try:
        whole = column.cast(pa.int64())
    except pa.ArrowInvalid:  # fractions, or beyond 2^53, where neighbours of a float64 are no integers
        return Stamps(*read_epoch(table, table.roles.timestamp, column.to_pylist(), config))
    return _from_text(table, whole.cast(pa.string()), config)


def _from_text(table: RawTable, column: Any, config: DataConfig) -> Stamps:
    import pyarrow.compute as pc

    empty = np.flatnonzero(pc.equal(column, "").to_numpy())
    if len(empty):
        raise DataError(f"{_where(table, empty)}: the timestamp is empty; fill it or remove the row")
    column = pc.replace_substring_regex(column, r"^(\d+)\.0+$", r"\1")  # whole numbers kept as floats
    if table.roles.clock is not None:
        column = _with_clock(column, table.columns[table.roles.clock])
    if config.date_format is not None:
        return _by_format(table, column, config.date_format)
    numeric = pc.match_substring_regex(column, r"^[+-]?\d+([.,]\d*)?([eE][+-]?\d+)?$").to_numpy()
    compact = pc.match_substring_regex(column, r"^(19|20)\d{6}$").to_numpy()
    if numeric.all() and not (compact.all() and config.timestamp_unit is None):
        cells = pc.replace_substring(column, ",", ".").to_pylist()
        if config.timestamp_unit is None:
            _refuse_dates_as_numbers(table, cells)
        return Stamps(*read_epoch(table, table.roles.timestamp, cells, config))
    return _iso(table, column)


def _refuse_dates_as_numbers(table: RawTable, cells: list[str]) -> None:
    written_so = digit_format(cells)
    if written_so is not None:
        raise ConfigError(
            "data.date_format",
            f"{_where(table, [0])}: {cells[0]} is {written_so.reading(cells[0])} written as a number, or an "
            f"epoch; set {written_so.line}, or data.timestamp_unit if it is an epoch",
        )


def _with_clock(date: Any, clock: Any) -> Any:
    """Joins date and time of day; compact forms (20240131, 153000, 93000) get zeros and separators."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(clock.type):
        clock = clock.cast(pa.string())
    if pc.match_substring(date, ":")[0].as_py() or not pa.types.is_string(clock.type):
        return date
    if pc.all(pc.match_substring_regex(clock, r"^\d{1,6}$")).as_py():
        longest = pc.max(pc.utf8_length(clock)).as_py()
        clock = pc.utf8_lpad(clock, 6 if longest > 4 else 4, "0")
    if not pc.match_substring_regex(clock, r"^\d{1,2}:\d{2}|^\d{4}(\d{2})?$")[0].as_py():
        return date
    date = pc.replace_substring_regex(date, r"^(\d{4})(\d{2})(\d{2})$", r"\1-\2-\3")
    clock = pc.replace_substring_regex(clock, r"^(\d{2})(\d{2})(\d{2})$", r"\1:\2:\3")
    clock = pc.replace_substring_regex(clock, r"^(\d{2})(\d{2})$", r"\1:\2")
    return pc.binary_join_element_wise(date, pc.replace_substring_regex(clock, r"^(\d):", r"0\1:"), " ")


def _iso(table: RawTable, column: Any) -> Stamps:
    import pandas as pd
    import pyarrow.compute as pc

    column = pc.replace_substring_regex(column, r"^(\d{4})[/.](\d{1,2})[/.](\d{1,2})", r"\1-\2-\3")
    column = pc.replace_substring_regex(column, r"^(.*\d) ?(UTC|GMT)$", r"\1Z")
    cells = column.to_pylist()
    shaped = pc.match_substring_regex(column, ISO_DATE).to_numpy()
    times = pc.match_substring_regex(column, "[T:]").to_numpy()
    aware = pc.match_substring_regex(column, OFFSET).to_numpy() & times
    parsed = pd.to_datetime(pd.Series(cells), format="ISO8601", utc=True, errors="coerce")
    bad = np.flatnonzero(parsed.isna().to_numpy() | ~shaped)
    if len(bad):
        raise _unreadable(table, bad, column.take(bad[:1])[0].as_py(), cells)
    if aware.any() and not aware.all():
        row = np.flatnonzero(aware != aware[0])[:1]
        raise DataError(
            f"{_where(table, row)}: {cells[int(row[0])]!r} and {cells[0]!r} differ in that one has an "
            "offset from UTC and the other has none; give all of them one form"
        )
    return Stamps(_nanoseconds(table, parsed), bool(aware.all()), "ISO dates")


def _by_format(table: RawTable, column: Any, date_format: str) -> Stamps:
    import pandas as pd

    cells = column.to_pylist()
    if fault := fault_of(date_format):
        raise ConfigError("data.date_format", f"{date_format!r} {fault}{_other_format(cells, date_format)}")
    aware = "%z" in date_format or "%Z" in date_format
    try:
        parsed = pd.to_datetime(pd.Series(cells), format=date_format, utc=aware, errors="coerce")
    except (ValueError, re.error) as error:  # a directive that stands twice is one of the latter
        raise ConfigError("data.date_format", f"{date_format!r} is no date format: {error}") from None
    bad = np.flatnonzero(parsed.isna().to_numpy())
    if len(bad):
        raise ConfigError(
            "data.date_format",
            f"{_where(table, bad)}: {cells[int(bad[0])]!r} does not match {date_format!r}"
            + _other_format(cells, date_format),
        )
    return Stamps(_nanoseconds(table, parsed), aware, f"dates as {date_format}")


def _other_format(cells: list[str], date_format: str) -> str:
    fitting = [proposal for proposal in propose_formats(cells) if proposal.pattern != date_format]
    return f"; set {fitting[0].line}" if fitting else "; mend the cell or the format"


def _nanoseconds(table: RawTable, parsed: Any) -> Nanoseconds:
    year = parsed.dt.year.to_numpy()
    bad = np.flatnonzero((year < 1900) | (year > 2200))
    if len(bad):
        raise _outside(table, bad, str(parsed.iloc[int(bad[0])]))
    naive = parsed.dt.tz_localize(None) if parsed.dt.tz is not None else parsed
    return np.array(naive.to_numpy().astype("datetime64[ns]").astype(np.int64))


def _unreadable(
    table: RawTable, bad: NDArray[np.int64], cell: str, cells: list[str]
) -> ConfigError | DataError:
    where = _where(table, bad)
    proposals = propose_formats(cells)
    if len(proposals) > 1:
        one, other = proposals[:2]
        # 01/01/2024 is the same day either way: show a cell that is not.
        telling = next((each for each in cells if one.reading(each) != other.reading(each)), cell)
        ways = " or ".join(f"{each.line} ({each.reading(telling)})" for each in (one, other))
        return ConfigError("data.date_format", f"{where}: {telling!r} is ambiguous; set {ways}")
    if proposals:
        line = proposals[0].line
        return ConfigError("data.date_format", f"{where}: {cell!r} is not an ISO date; set {line}")
    if len(bad) == len(cells) and re.search(r"\d", cell):
        return ConfigError(
            "data.date_format",
            f"{where}: {cell!r} is not an ISO date; set data.date_format to its strptime form",
        )
    if cell.strip() == table.names[table.roles.timestamp]:
        return DataError(f"{where}: the header stands here again; remove the line")
    return DataError(f"{where}: {cell!r} is not a date; mend the cell, or set data.date_format")


def _check_clock(table: RawTable, stamps: Stamps) -> None:
    """Refuses bars of one date whose times of day differ, but could not be joined to it."""
    if table.roles.clock is None:
        return
    clock = table.columns[table.roles.clock]
    for row in np.flatnonzero(np.diff(stamps.instant) == 0):
        here, next_one = clock[int(row)].as_py(), clock[int(row) + 1].as_py()
        if here != next_one:
            raise DataError(
                f"{table.source}, {table.where([int(row), int(row) + 1])}, column "
                f"{table.names[table.roles.clock]}: {str(here)!r} and {str(next_one)!r} of one date are not "
                "understood as times of day; write HH:MM:SS, or date and time in one column"
            )


def _check_range(table: RawTable, stamps: Stamps) -> None:
    latest = time.time_ns() + GRACE
    bad = np.flatnonzero((stamps.instant < EARLIEST) | (stamps.instant > latest))
    if len(bad):
        raise _outside(table, bad, written(stamps.instant[bad[0]]))


def _outside(table: RawTable, bad: NDArray[np.int64], read: str) -> DataError:
    cell = table.columns[table.roles.timestamp][int(bad[0])].as_py()
    return DataError(
        f"{_where(table, bad)}: {cell} reads as {read}, outside 1900 to now + 2 days; mend the cell, "
        "or set data.timestamp_unit (epoch numbers) or data.date_format (dates)"
    )


def written(instant: np.int64 | int) -> str:
    """Writes int64 ns as an ISO date and time without trailing zeros of a second."""
    text = str(np.datetime64(int(instant), "ns"))
    return text.rstrip("0").rstrip(".") if "." in text else text
