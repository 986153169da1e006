"""Which column is which: names are compared without case, brackets and separators."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.errors import DataError

# Earlier names win: an epoch number beats a written date, and a bar is labelled by its opening time.
TIME_NAMES = (
    "timestamp",
    "unix timestamp",
    "unix time",
    "unix",
    "epoch",
    "open time",
    "opentime",
    "datetime",
    "date time",
    "date",
    "gmt time",
    "utc time",
    "local time",
    "time",
    "ts",
    "t",
)
TIMESTAMP_NAMES = (*TIME_NAMES, "index", "index level 0", "unnamed: 0", "")  # the last may hold row numbers
PRICE_NAMES = (  # in the order in which a missing one is reported
    ("close", ("close", "c", "close price")),
    ("open", ("open", "o", "open price")),
    ("high", ("high", "h", "high price")),
    ("low", ("low", "l", "low price")),
)
ADJUSTED_NAMES = ("adj close", "adjclose", "adjusted close", "adj. close", "close adj")
VOLUME_NAMES = ("volume", "vol", "vol.", "v", "tick volume", "tickvol")
DELIMITERS = (";", "\t", "|", ",", ":", " ")
LEVELS = re.compile(r"^\(('[^']*'(, )?){2,}\)$")  # how pandas names a column of several levels
NUMBER = re.compile(r"^[+-]?\d+([.,]\d+)?$")


@dataclass(frozen=True)
class ColumnRoles:
    """Index of each column in the table; None where the file has no such column.

    ``volumes`` are all that may be it, the likeliest first; ``other_times`` are named like timestamps too.
    """

    timestamp: int
    clock: int | None
    other_times: tuple[int, ...]
    open: int
    high: int
    low: int
    close: int
    adjusted: int | None
    volumes: tuple[int, ...]


def normalised(name: str) -> str:
    """Lower case, without brackets; runs of spaces, underscores and hyphens become one space."""
    return re.sub(r"[\s_\-]+", " ", name.strip().strip("<>[]").casefold()).strip()


def known_columns(names: Sequence[str]) -> int:
    """Counts the prices and timestamps among ``names``; unnamed columns do not count."""
    known = {name for _, group in PRICE_NAMES for name in group} | set(TIMESTAMP_NAMES) - {""}
    return sum(normalised(name) in known for name in names)


def assign_roles(written: Sequence[str], where: str, first_row: str | None) -> ColumnRoles:
    """Finds the columns by their names.

    Args:
        written: Column names as they stand in the file.
        where: File, and line of the header if there is one.
        first_row: Text of the first row below the header; None for Parquet.

    Raises:
        DataError: For a column that is missing or stands twice, with what was found and the likely fix.
    """
    names = [normalised(name) for name in written]
    found = []
    for wanted, group in PRICE_NAMES:
        column = _unique(where, written, group)
        if column is None:
            raise DataError(_missing(where, wanted, written, first_row))
        found.append(column)
    timestamp = next((names.index(name) for name in TIMESTAMP_NAMES if name in names), None)
    if timestamp is None:
        raise DataError(_missing(where, "timestamp", written, first_row))
    if names.count(names[timestamp]) > 1 and names[timestamp]:
        raise DataError(f"{where}: column {written[timestamp]} stands twice; remove one")
    clock = names.index("time") if names[timestamp] == "date" and "time" in names else None
    others = tuple(
        names.index(name)
        for name in TIME_NAMES
        if name in names
        and names.index(name) != timestamp
        and not (name == "time" and "date" in names)  # the time of day of that date
    )
    volumes = [names.index(name) for name in VOLUME_NAMES if name in names]
    volumes += [index for index, name in enumerate(names) if name.startswith("volume ")]
    adjusted = next((names.index(name) for name in ADJUSTED_NAMES if name in names), None)
    if adjusted is None:
        adjusted = next((index for index, name in enumerate(names) if _is_adjusted_close(name)), None)
    close, opened, high, low = found
    return ColumnRoles(timestamp, clock, others, opened, high, low, close, adjusted, tuple(volumes))


def _unique(where: str, written: Sequence[str], group: tuple[str, ...]) -> int | None:
    names = [normalised(name) for name in written]
    for name in group:
        if names.count(name) > 1:
            raise DataError(f"{where}: column {name} stands twice in {list(written)}; remove one")
        if name in names:
            return names.index(name)
    return None


def _missing(where: str, wanted: str, written: Sequence[str], first_row: str | None) -> str:
    message = f"{where}: column {wanted} not found; found {list(written)}; "
    if first_row is not None and first_row.casefold().startswith("ticker,"):
        return message + "line 2 names a ticker, as yfinance writes it: download with multi_level_index=False"
    if any(LEVELS.match(name) for name in written):
        return message + "yfinance writes such names of several levels: download with multi_level_index=False"
    for delimiter in DELIMITERS if first_row is not None else ():
        if known_columns(max(written, key=len).split(delimiter)) >= 2:
            return message + _delimiter_hint(first_row or "", delimiter)
    if first_row is not None and len(written) > 1 and all(map(_looks_like_data, written)):
        return message + "this line looks like data: add a header, timestamp,open,high,low,close,volume"
    near = difflib.get_close_matches(wanted, [normalised(name) for name in written], n=1, cutoff=0.6)
    if near:
        candidate = next(name for name in written if normalised(name) == near[0])
        return message + f"rename {candidate!r} to {wanted!r} if that is it"
    return message + f"add or rename a column to {wanted!r}"


def _delimiter_hint(first_row: str, delimiter: str) -> str:
    if delimiter != "," and re.search(r"\d,\d", first_row):
        return (
            f"looks {delimiter!r}-separated: set data.delimiter, data.decimal "
            f'(data.delimiter = {_quoted(delimiter)} and data.decimal = ",")'
        )
    return f"looks {delimiter!r}-separated: set data.delimiter = {_quoted(delimiter)}"


def _quoted(delimiter: str) -> str:
    return '"tab"' if delimiter == "\t" else f'"{delimiter}"'


def _is_adjusted_close(name: str) -> bool:
    """``adjustedClose``, ``5. adjusted close``, ``Adj Close*``, ``Close (adj)`` and their like."""
    return bool(re.search(r"(^|[^a-z])adj", name)) and "close" in name


def _looks_like_data(cell: str) -> bool:
    return bool(NUMBER.match(cell)) or bool(re.match(r"^\d{1,4}[-/.:]\d", cell)) or not cell
