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
                f"{table.names[index]} name different times, {first!r} and {second!r}; drop or rename the one "
                "that is not the time of the bar"
            )


def _filled(column: Any) -> NDArray[np.int64]:
    cells = [None if cell is None or cell != cell else str(cell).strip() for cell in column.to_pylist()]
    return np.array([row for row, cell in enumerate(cells) if cell], dtype=np.int64)


def _readings(table: RawTable, index: int, rows: NDArray[np.int64]) -> Iterator[Nanoseconds]:
    """Everything that the column's cells may mean, int64 ns; nothing if they are no times."""
    if not len(rows):
        return
    column = table.columns[index].take(rows)
    alone = replace(
        table,
        names=(table.names[index],),
        columns=(column,),
        line=table.line[rows],
        roles=replace(table.roles, timestamp=0, clock=None),
    )
    try:
        yield read_timestamps(alone, DataConfig()).instant
    except (ConfigError, DataError):
        yield from _as_proposed([str(cell) for cell in column.to_pylist()])


def _as_proposed(cells: list[str]) -> Iterator[Nanoseconds]:
    import pandas as pd

    for proposal in propose_formats(cells):
        parsed = pd.to_datetime(pd.Series(cells), format=proposal.pattern, utc=True)
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
