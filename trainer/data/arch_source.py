"""Index histories that ship with the package arch: daily bars, read in place and never copied."""

from __future__ import annotations

import importlib
from typing import Literal

import numpy as np

from trainer.data.bars import Bars, Fill, Findings, Floats, Returns

IndexName = Literal["sp500", "nasdaq"]
INDEX_NAMES: tuple[IndexName, ...] = ("sp500", "nasdaq")


def load_index(name: IndexName, returns: Returns) -> Bars:
    """Loads daily bars of 1999-01-04 to 2018-12-31 (5031 rows), dates at midnight UTC.

    The S&P 500's published open is the last close on 39.8 % of days, so a fill at the next open would
    often be the close that the decision has just seen: its default fill is the next close.
    """
    frame = importlib.import_module(f"arch.data.{name}").load()

    def column(title: str) -> Floats:
        return np.array(frame[title], dtype=np.float64)

    timestamp = frame.index.to_numpy().astype("datetime64[ns]").astype(np.int64)
    fill: Fill = "next_close" if name == "sp500" else "next_open"
    findings = Findings(
        source=name, dialect=f"arch.data.{name}", time_unit="dates", time_zone="UTC (dates at midnight)"
    )
    return Bars(
        timestamp,
        column("Open"),
        column("High"),
        column("Low"),
        column("Close"),
        column("Volume"),
        findings,
        fill,
        returns,
    )
