"""RawTable: the cells of a file before anything is believed about them, each with its place in the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trainer.data.columns import ColumnRoles

SHOWN_LINES = 5  # how many bad lines a message lists


@dataclass(frozen=True)
class RawTable:
    """Columns as read, in file order.

    Attributes:
        source: Absolute path.
        names: Column names as written.
        columns: One pyarrow ChunkedArray a column: text for CSV, any type for Parquet.
        line: [N] int64, the file line of each row (CSV, the first line is 1) or the row number (Parquet).
        place: What ``line`` counts.
        dialect: How the file was read, for the summary.
        roles: Which column is which.
        decimal: Decimal sign of text cells; None means a point, unasked.
        notes: Things that were understood, one sentence each.
    """

    source: str
    names: tuple[str, ...]
    columns: tuple[Any, ...]
    line: NDArray[np.int64]
    place: Literal["line", "row"]
    dialect: str
    roles: ColumnRoles
    decimal: Literal[".", ","] | None = None
    notes: tuple[str, ...] = ()

    def where(self, rows: Sequence[int] | NDArray[np.int64]) -> str:
        """Names rows by their place in the file: ``line 7`` or ``lines 3, 5 (2 in all)``."""
        return places(self.place, self.line[np.asarray(rows, dtype=np.int64)])


def places(place: str, lines: NDArray[np.int64]) -> str:
    """Names file lines, at most five of them, and how many there are."""
    if len(lines) == 1:
        return f"{place} {lines[0]}"
    shown = ", ".join(str(line) for line in lines[:SHOWN_LINES])
    rest = f", ... ({len(lines)} in all)" if len(lines) > SHOWN_LINES else f" ({len(lines)} in all)"
    return f"{place}s {shown}{rest}"
