"""Epoch numbers: the unit is told by their magnitude, and checked against the calendar."""

from __future__ import annotations

import time
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trainer.config import DataConfig
from trainer.data.date_formats import short_dates
from trainer.data.raw_table import RawTable
from trainer.errors import ConfigError, DataError

Unit = Literal["s", "ms", "us", "ns"]
NANOSECONDS: tuple[tuple[Unit, int], ...] = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
# A second count below 1e11 ends in the year 5138; the same number of milliseconds began in March 1973.
LIMITS: tuple[tuple[Unit, float], ...] = (("s", 1e11), ("ms", 1e14), ("us", 1e17), ("ns", float("inf")))
SMALLEST = 1e8  # s, March 1973: smaller numbers are row numbers or spreadsheet days, not epochs
EARLIEST = -2_208_988_800 * 10**9  # 1900-01-01T00:00Z, ns
GRACE = 2 * 86400 * 10**9  # ns; a bar may be labelled by its end, in the zone furthest east
KEY = "data.timestamp_unit"
LAST_DIGIT = 19  # place of an epoch's first digit at most: 10^20 ns are the year 5138
SHOWN_DIGITS = 40
SPREADSHEET_DIGITS = 7  # a spreadsheet shows 6 of a long number; already hourly bars need 8
SPREADSHEET_DAYS = (14_611, 73_051)  # 1940 to 2100
SPREADSHEET_ORIGIN = np.datetime64("1899-12-30")  # day 0, for every day after February 1900
# Counts of 100 ns from other origins, 1965 to 2045: by magnitude they pass for nanoseconds of 1973 or 1990.
OTHER_ORIGINS = (
    ("FILETIME, 100 ns since 1601", 1.148e17, 1.401e17),
    (".NET ticks, 100 ns since the year 1", 6.198e17, 6.452e17),
)


def read_epoch(
    table: RawTable, index: int, cells: Sequence[Any], config: DataConfig
) -> tuple[NDArray[np.int64], bool, str]:
    """Reads epoch numbers as (int64 ns [N], True, unit in words).

    Args:
        table: For the lines of a message.
        index: The timestamp column.
        cells: [N] numbers, or their text.
        config: ``timestamp_unit`` overrides the magnitude.

    Raises:
        ConfigError: Naming ``data.timestamp_unit`` where the unit cannot be told, differs between rows,
            or leads outside 1900 to now + 2 days.
        DataError: For numbers beyond any time, or shortened by a spreadsheet to a few digits and an exponent.
    """
    exact = _exact(cells)
    _refuse_beyond(table, index, exact, cells)
    _refuse_shortened(table, index, exact, cells)
    size = np.abs(np.array(exact, dtype=np.float64))
    unit = config.timestamp_unit or _by_magnitude(table, index, size, cells)
    scale = dict(NANOSECONDS)[unit]
    instants = [int(value * scale) for value in exact]
    latest = time.time_ns() + GRACE
    bad = [row for row, instant in enumerate(instants) if not EARLIEST <= instant <= latest]
    if bad:
        raise ConfigError(
            KEY,
            f"{table.source}, {table.where(bad)}, column {table.names[index]}: {cells[bad[0]]} read as "
            f"{unit} is {_year(instants[bad[0]])}, outside 1900 to now + 2 days; "
            + _unit_fix(exact, unit, latest),
        )
    source = "given" if config.timestamp_unit else "by magnitude"
    return np.array(instants, dtype=np.int64), True, f"epoch {unit} ({source})"


def _exact(cells: Sequence[Any]) -> list[int] | list[Decimal]:
    """Integers stay integers and fractions stay decimal: a float64 of nanoseconds is off by 128 of them."""
    if isinstance(cells[0], int | str):
        try:
            return [int(cell) for cell in cells]
        except ValueError:  # a fraction or an exponent in the text
            pass
    return [Decimal(str(cell)) for cell in cells]


def _refuse_beyond(
    table: RawTable, index: int, exact: list[int] | list[Decimal], cells: Sequence[Any]
) -> None:
    numbers = [Decimal(value) for value in exact]
    rows = [row for row, each in enumerate(numbers) if not each.is_finite() or each.adjusted() > LAST_DIGIT]
    if rows:
        cell = str(cells[rows[0]])[:SHOWN_DIGITS]
        raise DataError(
            f"{table.source}, {table.where(rows)}, column {table.names[index]}: {cell} is beyond any time; "
            "mend the cell"
        )


def _refuse_shortened(
    table: RawTable, index: int, exact: list[int] | list[Decimal], cells: Sequence[Any]
) -> None:
    rows = [row for row, cell in enumerate(cells) if isinstance(cell, str) and "e" in cell.lower()]
    if rows and max(len(Decimal(exact[row]).as_tuple().digits) for row in rows) <= SPREADSHEET_DIGITS:
        raise DataError(
            f"{table.source}, {table.where(rows)}, column {table.names[index]}: {cells[rows[0]]} has lost "
            "its last digits, as in a spreadsheet; export the column again as whole numbers"
        )


def _by_magnitude(table: RawTable, index: int, size: NDArray[np.float64], cells: Sequence[Any]) -> Unit:
    where = f"{table.source}, column {table.names[index]}"
    if not size.max() >= SMALLEST:
        raise _too_small(where, size, cells)
    units = np.searchsorted([limit for _, limit in LIMITS], size, side="right")
    # Numbers near 1970 are small in any unit; a thousandfold jump between neighbours is a change of unit.
    smaller, larger = np.minimum(size[1:], size[:-1]), np.maximum(size[1:], size[:-1])
    rows = np.flatnonzero((units[1:] != units[:-1]) & (smaller >= SMALLEST) & (larger > 100 * smaller))
    if len(rows):
        first = int(rows[0])
        raise ConfigError(
            KEY,
            f"{table.source}, {table.place}s {table.line[first]} and {table.line[first + 1]}, column "
            f"{table.names[index]}: {cells[first]} and {cells[first + 1]} are of two units; write all rows "
            f"in one unit and set {KEY}",
        )
    for words, low, high in OTHER_ORIGINS:
        if low <= size.min() and size.max() <= high:
            raise ConfigError(
                KEY,
                f"{where}: {cells[0]} looks like {words}; write dates or a unix epoch, or set "
                f'{KEY} = "ns" if it is one',
            )
    return LIMITS[int(units.max())][0]


def _too_small(where: str, size: NDArray[np.float64], cells: Sequence[Any]) -> ConfigError:
    """Says what numbers below any epoch of the last decades may be: days, dates, or an epoch of the 1970s."""
    if SPREADSHEET_DAYS[0] <= size.min() and size.max() <= SPREADSHEET_DAYS[1]:
        day = SPREADSHEET_ORIGIN + np.timedelta64(int(size[0]), "D")
        return ConfigError(
            KEY,
            f"{where}: {cells[0]} looks like a spreadsheet's count of days ({day}); export the column again "
            "as dates",
        )
    dates = short_dates([str(cell) for cell in cells])
    if dates:
        ways = " or ".join(f"{each.line} ({each.reading(str(cells[0]))})" for each in dates)
        return ConfigError("data.date_format", f"{where}: {cells[0]} is too small for an epoch; set {ways}")
    return ConfigError(
        KEY,
        f"{where}: numbers up to {size.max():g} are too small to tell an epoch's unit; set {KEY}, or write "
        "dates",
    )


def _unit_fix(exact: list[int] | list[Decimal], unit: Unit, latest: int) -> str:
    """Proposes the unit of the numbers' magnitude, else the coarsest, that all fit; else they are wrong."""
    size = max(abs(float(value)) for value in exact)
    usual = next(name for name, limit in LIMITS if size < limit)
    scales = dict(NANOSECONDS)
    for other in (usual, *scales):
        if other != unit and all(EARLIEST <= int(value * scales[other]) <= latest for value in exact):
            return f'set {KEY} = "{other}"'
    return f"mend the cell, or set {KEY} if it is not in {unit}"


def _year(instant: int) -> str:
    return f"about the year {1970 + instant / (365.2425 * 86400e9):.0f}"
