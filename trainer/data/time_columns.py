"""Further columns that are named like times: each must mean the same as the one that is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.config import DataConfig
from trainer.data.date_formats import propose_formats
from trainer.data.raw_table import RawTable
from trainer.data.timestamps import DAY_NS, Nanoseconds, Stamps, read_timestamps
from trainer.errors import ConfigError, DataError

SAMPLE = 2000  # cells that formats are tried on before all are
HOUR_NS = 3600 * 10**9  # by which summer time moves one column against the other
FARTHEST = 38 * HOUR_NS  # 14 h to the farthest zone, and 24 h less where a column has the day alone


def refuse_other_times(table: RawTable, stamps: Stamps) -> None:
    """Refuses a file whose columns of times differ by more than a zone, summer time or a missing time of day.

    A column that holds no times, whatever its name, is none of them.

    Args:
        table: The file.
        stamps: As the timestamp column was read.

    Raises:
        DataError: Naming both columns, the rows and the cells of the first of these.
    """
    for index in table.roles.other_times:
        filled = _filled(table.columns[index])
        readings = list(_readings(table, index, filled))
        if not readings:
            continue
        apart = min((_apart(stamps.instant[filled], other) for other in readings), key=len)
        if len(apart):
            rows = filled[apart]
            first, second = (
                str(table.columns[column][int(rows[0])].as_py()) for column in (table.roles.timestamp, index)
            )
            raise DataError(
                f"{table.source}, {table.where(rows)}: columns {table.names[table.roles.timestamp]} and "
                f"{table.names[index]} name different times, {first!r} and {second!r}; drop or rename the "
                "one that is not the time of the bar"
            )


def _filled(column: Any) -> NDArray[np.int64]:
    cells = [None if cell is None or cell != cell else str(cell).strip() for cell in column.to_pylist()]
    return np.array([row for row, cell in enumerate(cells) if cell], dtype=np.int64)


def _readings(table: RawTable, index: int, rows: NDArray[np.int64]) -> Iterator[Nanoseconds]:
    """Everything that the column's cells may mean, int64 ns; nothing if they are no times."""
    if not len(rows):
        return
    some = rows[:: 1 + len(rows) // SAMPLE]
    try:
        _instants(table, index, some)  # in a long column it takes long to find that nothing can be read
        yield _instants(table, index, rows)
    except (ConfigError, DataError):
        for proposal in propose_formats(_texts(table, index, some)):
            yield from _by_format(_texts(table, index, rows), proposal.pattern)


def _instants(table: RawTable, index: int, rows: NDArray[np.int64]) -> Nanoseconds:
    """Reads a column as the one timestamp of a file is read."""
    alone = replace(
        table,
        names=(table.names[index],),
        columns=(table.columns[index].take(rows),),
        line=table.line[rows],
        roles=replace(table.roles, timestamp=0, clock=None),
    )
    return read_timestamps(alone, DataConfig()).instant


def _texts(table: RawTable, index: int, rows: NDArray[np.int64]) -> list[str]:
    return [str(cell) for cell in table.columns[index].take(rows).to_pylist()]


def _by_format(cells: list[str], pattern: str) -> Iterator[Nanoseconds]:
    """One reading, or none where a cell does not fit."""
    import pandas as pd

    parsed = pd.to_datetime(pd.Series(cells), format=pattern, utc=True, errors="coerce")
    if parsed.notna().all():
        yield parsed.dt.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)


def _apart(one: Nanoseconds, other: Nanoseconds) -> NDArray[np.int64]:
    """Rows [N] in which two columns differ otherwise than in most."""
    difference = other - one
    room = HOUR_NS
    of_day = [times % DAY_NS for times in (one, other)]
    days_alone = [not times.any() for times in of_day]
    if days_alone[0] != days_alone[1]:
        room += int(np.ptp(of_day[days_alone[0]]))  # of the one that has times of day
    usual = np.median(difference)
    return np.flatnonzero((np.abs(difference) > FARTHEST) | (np.abs(difference - usual) > room))
