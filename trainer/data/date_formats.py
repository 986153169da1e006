"""Proposals for ``data.date_format``: which strptime forms fit every cell of a column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

DATES = (
    "%d{0}%m{0}%Y",
    "%m{0}%d{0}%Y",
    "%d{0}%m{0}%y",
    "%m{0}%d{0}%y",
    "%d{0}%b{0}%Y",
    "%d{0}%b{0}%y",
    "%d{0}%B{0}%Y",
)
SEPARATORS = (".", "/", "-", " ")
WRITTEN_DATES = (
    "%b %d, %Y",
    "%B %d, %Y",
    "%b %d %Y",
    "%Y-%m-%d",
    "%Y-%b-%d",
    "%a %b %d %Y",
    "%Y%m%d",
    "%Y-%m",
)
TIMES = (
    "",
    " %H:%M",
    " %H:%M:%S",
    " %H:%M:%S.%f",
    ", %H:%M",
    " %I:%M %p",
    " %I:%M:%S %p",
    " %I-%p",
    " %H%M%S",
)
TIMES_WITH_OFFSET = (*(f"{time} %z" for time in TIMES[1:]), " %H:%M:%S GMT%z", " %H:%M:%S.%f GMT%z")
COMPACT = ("%Y%m%d%H%M%S", "%Y%m%d%H%M", "%Y%m%d:%H:%M:%S")
DIGITS = {10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S", 17: "%Y%m%d%H%M%S%f"}  # by their number
# Numbers of so few digits are too small for an epoch.
SHORT_DIGITS = {8: ("%d%m%Y", "%m%d%Y"), 7: ("%Y%j",), 6: ("%y%m%d", "%Y%m"), 4: ("%Y",)}
SAMPLE = 2000  # cells tried per format before all are
YEARS = frozenset({"%Y", "%y", "%G", "%c", "%x"})  # directives that say a year


@dataclass(frozen=True)
class Proposal:
    """A format that fits every cell, and the configuration line that sets it."""

    pattern: str
    line: str

    def reading(self, cell: str) -> str:
        """How the format reads a cell, e.g. ``3 January 2024``."""
        import pandas as pd

        date = pd.to_datetime(cell, format=self.pattern)
        return f"{date.day} {date.strftime('%B %Y')}"


def fault_of(pattern: str) -> str:
    """Says what makes ``pattern`` read another date than the one written; empty if nothing does.

    Without a year strptime takes 1900, and pandas takes words such as ``mixed`` for leave to guess.
    """
    directives = set(re.findall(r"%.", pattern))
    if not directives & YEARS:
        return "names no year (%Y or %y)"
    if "%p" in directives and "%H" in directives:
        return "has %p, which the 24 hours of %H ignore: use %I"
    if "%I" in directives and "%p" not in directives:
        return "reads a 12-hour clock (%I) without its AM or PM (%p): use %H for one of 24 hours"
    return ""


def propose_formats(cells: Sequence[str]) -> list[Proposal]:
    """Lists the formats that every cell fits, in the order day first, month first, others."""
    import pandas as pd

    dates = [date.format(mark) for mark in SEPARATORS for date in DATES] + list(WRITTEN_DATES)
    candidates = [date + time for date in dates for time in (*TIMES, *TIMES_WITH_OFFSET)] + list(COMPACT)
    proposals = []
    for pattern in candidates:
        first = pd.to_datetime(cells[0], format=pattern, errors="coerce")
        if pd.isna(first) or not _fits(cells, pattern):
            continue
        proposals.append(Proposal(pattern, f'data.date_format = "{pattern}"'))
    return proposals


def digit_format(cells: Sequence[str]) -> Proposal | None:
    """Returns the format of dates that are written as one number, 202401311530; None where they are not.

    Among epochs of 1900 to now only milliseconds of 1976 and microseconds and nanoseconds of 1970 look alike.
    """
    pattern = DIGITS.get(len(cells[0]))
    if pattern is None or not all(
        len(cell) == len(cells[0]) and cell.isdecimal() and cell[:2] in ("19", "20") for cell in cells
    ):
        return None
    return Proposal(pattern, f'data.date_format = "{pattern}"') if _fits(cells, pattern) else None


def short_dates(cells: Sequence[str]) -> list[Proposal]:
    """Lists the formats of dates that are written as numbers of up to eight digits, all of one length."""
    digits = len(cells[0])
    if any(len(cell) != digits for cell in cells):
        return []
    fitting = [pattern for pattern in SHORT_DIGITS.get(digits, ()) if _fits(cells, pattern)]
    return [Proposal(pattern, f'data.date_format = "{pattern}"') for pattern in fitting]


def _fits(cells: Sequence[str], pattern: str) -> bool:
    import pandas as pd

    for part in (cells[:SAMPLE], cells):
        parsed = pd.to_datetime(pd.Series(part), format=pattern, utc="%z" in pattern, errors="coerce")
        if parsed.isna().any():
            return False
    return True
