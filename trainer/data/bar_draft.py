"""BarDraft: columns in time order that are not checked yet, each row with its place in the file."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trainer.data.bars import Floats, Nanoseconds, Returns
from trainer.data.raw_table import places


@dataclass(frozen=True)
class BarDraft:
    """Bars before validation; NaN stands for an empty cell. All arrays have length N.

    Attributes:
        source: Absolute path.
        place: ``line`` or ``row``.
        line: int64 place of each row in the file.
        timestamp: int64 ns, UTC.
        open, high, low, close, volume: float64.
        adjusted: float64 ``Adj Close``, or None without such a column.
        returns: ``data.returns``.
    """

    source: str
    place: str
    line: NDArray[np.int64]
    timestamp: Nanoseconds
    open: Floats
    high: Floats
    low: Floats
    close: Floats
    volume: Floats
    adjusted: Floats | None
    returns: Returns

    def __len__(self) -> int:
        return len(self.line)

    def where(self, rows: NDArray[np.int64]) -> str:
        """Names rows: ``line 7`` or ``lines 3, 5 (2 in all)``, in the order of the file."""
        return places(self.place, np.sort(self.line[rows]))

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> BarDraft:
        """Returns the chosen rows, in the chosen order."""
        return replace(
            self,
            line=self.line[rows],
            timestamp=self.timestamp[rows],
            open=self.open[rows],
            high=self.high[rows],
            low=self.low[rows],
            close=self.close[rows],
            volume=self.volume[rows],
            adjusted=None if self.adjusted is None else self.adjusted[rows],
        )

    def values(self) -> list[tuple[str, Floats]]:
        """Lists the named value columns, close first: it is the one people look at."""
        columns = [("close", self.close), ("open", self.open), ("high", self.high), ("low", self.low)]
        columns.append(("volume", self.volume))
        return columns if self.adjusted is None else [*columns, ("adj close", self.adjusted)]
