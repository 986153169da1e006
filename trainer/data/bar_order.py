"""Time order: identical repeated rows are dropped, everything else that does not go forward is refused."""

from __future__ import annotations

import datetime
import functools
import zoneinfo

import numpy as np
from numpy.typing import NDArray

from trainer.data.bar_draft import BarDraft
from trainer.data.timestamps import DAY_NS, written
from trainer.errors import ConfigError, DataError

HOUR_NS = 3600 * 10**9
LONGEST_SHIFT = 3 * HOUR_NS  # clocks go back by at most this much
SUNDAY = 3  # days since Thursday 1970-01-01, modulo 7
# Months in which some zone's clocks go back, mostly on a Sunday between midnight and 3:00.
FALL_BACK_MONTHS = (3, 4, 9, 10, 11)
# Zones whose clocks went back on other days or before midnight in the years of most data.
OTHER_NIGHTS = (
    "Africa/Cairo",
    "America/Asuncion",
    "America/Nuuk",
    "America/Santiago",
    "America/Sao_Paulo",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Damascus",
    "Asia/Gaza",
    "Asia/Jerusalem",
    "Asia/Tehran",
)
HINT = 'set data.tz to their zone (data.tz = "UTC" if they are not local)'


def runs_backwards(stamps: NDArray[np.int64]) -> bool:
    """Whether a file runs from newest to oldest: more steps go back than forward."""
    steps = np.diff(stamps)
    return int((steps < 0).sum()) > int((steps > 0).sum())


def drop_duplicates(draft: BarDraft, naive: bool, zone: str | None = None) -> tuple[BarDraft, int]:
    """Returns strictly increasing bars and how many identical repeats were dropped.

    Args:
        draft: Rows in the file's order, or turned round.
        naive: No zone is known, so that an hour that occurs twice looks like a duplicate.
        zone: The zone of naive stamps if it was given; it may be the wrong one.

    Raises:
        ConfigError: Naming ``data.tz`` for a repetition that clocks going back would explain.
        DataError: For conflicting rows at one timestamp, or an unsorted file.
    """
    steps = np.diff(draft.timestamp)
    # Any stamp off midnight makes the file intraday, where clocks matter.
    local = naive and bool(np.any(draft.timestamp % DAY_NS != 0))
    backwards = np.flatnonzero(steps < 0)
    if len(backwards):
        raise _unsorted(draft, int(backwards[0]), local and steps[backwards[0]] >= -LONGEST_SHIFT)
    repeated = np.flatnonzero(steps == 0) + 1
    if not len(repeated):
        return draft, 0
    _check_repeats(draft, repeated, local, zone)
    keep = np.ones(len(draft), dtype=bool)
    keep[repeated] = False
    return draft.take(keep), len(repeated)


def _check_repeats(draft: BarDraft, rows: NDArray[np.int64], local: bool, zone: str | None) -> None:
    """Refuses repeats at ``rows`` that clocks would explain, or that differ from the row before."""
    if local and (night := rows[_may_be_fall_back(draft.timestamp[rows])]).size:
        raise ConfigError(
            "data.tz",
            f"{_pair(draft, night[0])}, column timestamp: {written(draft.timestamp[night[0]])} stands twice "
            f"in a night in which clocks go back; {HINT}",
        )
    for name, values in draft.values():
        before, after = values[rows - 1], values[rows]
        conflicts = rows[(before != after) & ~(np.isnan(before) & np.isnan(after))]
        if len(conflicts):
            row = int(conflicts[0])
            pair = sorted([(draft.line[row - 1], values[row - 1]), (draft.line[row], values[row])])
            hint = f"; keep one, or if the times are local {HINT}" if local else "; keep one"
            if zone is not None:
                hint += f", or set data.tz to their zone if it is not {zone}"
            raise DataError(
                f"{_pair(draft, row)}, column {name}: {written(draft.timestamp[row])} stands twice with "
                f"{pair[0][1]} and {pair[1][1]}{hint}"
            )


def _pair(draft: BarDraft, row: int) -> str:
    first, second = sorted(draft.line[row - 1 : row + 1].tolist())
    return f"{draft.source}, {draft.place}s {first} and {second}"


def _may_be_fall_back(stamps: NDArray[np.int64]) -> NDArray[np.bool_]:
    month = stamps.astype("datetime64[ns]").astype("datetime64[M]").astype(np.int64) % 12 + 1
    sunday = (stamps // DAY_NS) % 7 == SUNDAY
    early = stamps % DAY_NS <= LONGEST_SHIFT
    usual = np.asarray(sunday & early & np.isin(month, FALL_BACK_MONTHS))
    other = np.isin(stamps, [stamp for stamp in np.unique(stamps).tolist() if _twice_in_other_zones(stamp)])
    return np.asarray(usual | other)


def _twice_in_other_zones(stamp: int) -> bool:
    """Whether a local clock time (int64 ns) occurs twice in one of ``OTHER_NIGHTS``."""
    clock = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=stamp // 10**9)
    for zone in _other_zones():
        first, second = zone.utcoffset(clock), zone.utcoffset(clock.replace(fold=1))
        if first is not None and second is not None and first > second:  # in a skipped hour it is smaller
            return True
    return False


@functools.cache
def _other_zones() -> tuple[zoneinfo.ZoneInfo, ...]:
    known = zoneinfo.available_timezones()  # a system may lack some
    return tuple(zoneinfo.ZoneInfo(name) for name in OTHER_NIGHTS if name in known)


def _unsorted(draft: BarDraft, row: int, may_be_local: bool) -> DataError:
    earlier, later = written(draft.timestamp[row]), written(draft.timestamp[row + 1])
    hint = f", or if the times are local {HINT}" if may_be_local else ""
    return DataError(
        f"{draft.source}, {draft.place} {draft.line[row + 1]}, column timestamp: {later} does not come after "
        f"{earlier} in {draft.place} {draft.line[row]}; sort the rows by time{hint}"
    )
