"""Which column is which: names are compared without case, brackets and separators."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.data.raw_table import RawTable
from trainer.errors import DataError

# Earlier names win: an epoch number beats a written date, and a bar is labelled by its opening time.
TIMESTAMP_NAMES = (
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
    "index",
    "index level 0",
    "unnamed: 0",
    "",
)
PRICE_NAMES = (
    ("open", ("open", "o", "open price")),
    ("high", ("high", "h", "high price")),
    ("low", ("low", "l", "low price")),
    ("close", ("close", "c", "close price")),
)
ADJUSTED_NAMES = ("adj close", "adjclose", "adjusted close", "adj. close", "close adj")
VOLUME_NAMES = ("volume", "vol", "vol.", "v", "tick volume", "tickvol")
DELIMITERS = (";", "\t", "|", ",", ":")
NUMBER = re.compile(r"^[+-]?\d+([.,]\d+)?$")


@dataclass(frozen=True)
class ColumnRoles:
    """Index of each column in the table; None where the file has no such column."""

    timestamp: int
    clock: int | None
    open: int
    high: int
    low: int
    close: int
    adjusted: int | None
    volume: int | None


def normalised(name: str) -> str:
    """Lower case, without brackets; runs of spaces, underscores and hyphens become one space."""
    return re.sub(r"[\s_\-]+", " ", name.strip().strip("<>[]").casefold()).strip()


def known_columns(names: Sequence[str]) -> int:
    """Counts the prices and timestamps among ``names``; unnamed columns do not count."""
    known = {name for _, group in PRICE_NAMES for name in group} | set(TIMESTAMP_NAMES) - {""}
    return sum(normalised(name) in known for name in names)


def assign_roles(table: RawTable) -> ColumnRoles:
    """Finds the columns by their names.

    Raises:
        DataError: For a column that is missing or stands twice, with what was found and the likely fix.
    """
    names = [normalised(name) for name in table.names]
    where = table.source if table.header is None else f"{table.source}, line {table.header}"
    found = []
    for wanted, group in PRICE_NAMES:
        found.append(_unique(where, wanted, names, group, table))
    timestamp = next((names.index(name) for name in TIMESTAMP_NAMES if name in names), None)
    if timestamp is None:
        raise DataError(_missing(where, "timestamp", table))
    if names.count(names[timestamp]) > 1 and names[timestamp]:
        raise DataError(f"{where}: column {table.names[timestamp]} stands twice; remove one")
    clock = names.index("time") if names[timestamp] == "date" and "time" in names else None
    volume = next((names.index(name) for name in VOLUME_NAMES if name in names), None)
    if volume is None:
        volume = next((index for index, name in enumerate(names) if name.startswith("volume ")), None)
    adjusted = next((names.index(name) for name in ADJUSTED_NAMES if name in names), None)
    opened, high, low, close = found
    return ColumnRoles(timestamp, clock, opened, high, low, close, adjusted, volume)


def _unique(where: str, wanted: str, names: list[str], group: tuple[str, ...], table: RawTable) -> int:
    for name in group:
        if names.count(name) > 1:
            raise DataError(f"{where}: column {name} stands twice in {list(table.names)}; remove one")
        if name in names:
            return names.index(name)
    raise DataError(_missing(where, wanted, table))


def _missing(where: str, wanted: str, table: RawTable) -> str:
    message = f"{where}: column {wanted} not found; found {list(table.names)}; "
    joined = table.names[0] if len(table.names) == 1 else ""
    for delimiter in DELIMITERS:
        if known_columns(joined.split(delimiter)) >= 2:
            return message + _delimiter_hint(table, delimiter)
    if table.place == "line" and len(table.names) > 1 and all(map(_looks_like_data, table.names)):
        return message + "this line looks like data: add a header, timestamp,open,high,low,close,volume"
    near = difflib.get_close_matches(wanted, [normalised(name) for name in table.names], n=1, cutoff=0.6)
    if near:
        written = next(name for name in table.names if normalised(name) == near[0])
        return message + f"rename {written!r} to {wanted!r} if that is it"
    return message + f"add or rename a column to {wanted!r}"


def _delimiter_hint(table: RawTable, delimiter: str) -> str:
    # "," also separates the sample's own cells where it is the decimal sign, so the raw row is looked at
    sample = str(table.columns[0][0].as_py())
    commas = any(re.search(r"\d,\d", cell) for cell in sample.split(delimiter))
    if commas:
        return (
            f"looks {delimiter!r}-separated: set data.delimiter, data.decimal "
            f'(data.delimiter = {_quoted(delimiter)} and data.decimal = ",")'
        )
    return f"looks {delimiter!r}-separated: set data.delimiter = {_quoted(delimiter)}"


def _quoted(delimiter: str) -> str:
    return '"tab"' if delimiter == "\t" else f'"{delimiter}"'


def _looks_like_data(cell: str) -> bool:
    return bool(NUMBER.match(cell)) or bool(re.match(r"^\d{1,4}[-/.:]\d", cell)) or not cell
