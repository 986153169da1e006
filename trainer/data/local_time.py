"""Local clock to UTC: hours that occur twice, hours that never occur, and zones that do not exist."""

from __future__ import annotations

import difflib
import zoneinfo
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainer.data.raw_table import places
from trainer.data.timestamps import Stamps, written
from trainer.errors import ConfigError

Nanoseconds = NDArray[np.int64]
KEY = "data.tz"
NO_ZONES = frozenset({"localtime", "Factory"})  # what this machine is set to, and a placeholder
NOT_A_TIME = np.iinfo(np.int64).min  # how numpy stores NaT


@dataclass(frozen=True)
class UtcStamps:
    """UTC timestamps [N] int64 ns, the zone in words, and what had to be decided."""

    instant: Nanoseconds
    time_zone: str
    warnings: tuple[str, ...] = ()


def to_utc(stamps: Stamps, zone: str | None, source: str, place: str, line: NDArray[np.int64]) -> UtcStamps:
    """Turns stamps in time order into UTC.

    When clocks go back, an hour occurs twice: the first pass is daylight time, and a stamp that would not
    come after its predecessor belongs to the second pass. Dates (all at midnight) are never refused.

    Args:
        stamps: In time order (a reversed file already turned round).
        zone: ``data.tz``, an IANA name; None reads a naive clock as UTC.
        source: File, for messages.
        place: ``line`` or ``row``.
        line: [N] place of each stamp.

    Raises:
        ConfigError: For an unknown zone, or a local time that the zone's clocks skip.
    """
    if zone is not None:
        _check_zone(zone)
    if stamps.aware:
        warning = f"data.tz = {zone!r} is not needed: the timestamps say their instant themselves"
        return UtcStamps(stamps.instant, "UTC (said by the file)", (warning,) if zone else ())
    if zone is None:
        assumed = "UTC (dates at midnight)" if stamps.date_only else "UTC (assumed; set data.tz if local)"
        return UtcStamps(stamps.instant, assumed)
    daylight = _localise(stamps, zone, first_pass=True)
    standard = _localise(stamps, zone, first_pass=False)
    missing = np.flatnonzero(daylight == NOT_A_TIME)
    if len(missing):
        clock = written(stamps.instant[missing[0]])
        raise ConfigError(
            KEY,
            f"{source}, {places(place, line[missing])}: {clock} does not exist in {zone}, whose clocks skip "
            "it; set data.tz to the zone the file was written in, or mend the rows",
        )
    return _choose_pass(stamps, daylight, standard, zone)


def _check_zone(zone: str) -> None:
    # ZoneInfo opens any file of the system's folder, such as those that count leap seconds (right/...).
    known = zoneinfo.available_timezones() - NO_ZONES
    if zone not in known:
        near = difflib.get_close_matches(zone, sorted(known), n=1, cutoff=0.5)
        fix = f"did you mean {near[0]!r}?" if near else "use an IANA name such as America/New_York"
        raise ConfigError(KEY, f"unknown time zone {zone!r}; {fix}")


def _localise(stamps: Stamps, zone: str, *, first_pass: bool) -> Nanoseconds:
    import pandas as pd

    index = pd.DatetimeIndex(stamps.instant.astype("datetime64[ns]"))
    ambiguous = np.full(len(index), first_pass)
    skipped = "shift_forward" if stamps.date_only else "NaT"
    aware = index.tz_localize(zoneinfo.ZoneInfo(zone), ambiguous=ambiguous, nonexistent=skipped)
    return np.array(
        aware.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
    )


def _choose_pass(stamps: Stamps, daylight: Nanoseconds, standard: Nanoseconds, zone: str) -> UtcStamps:
    instant = daylight.copy()
    twice = np.flatnonzero(daylight != standard)
    for row in twice:
        if row > 0 and instant[row] <= instant[row - 1]:
            instant[row] = standard[row]
    first, second = instant[twice] == daylight[twice], instant[twice] == standard[twice]
    clock = stamps.instant[twice]
    once = set(clock[first].tolist()) ^ set(clock[second].tolist())
    if not once or stamps.date_only:
        return UtcStamps(instant, zone)
    warning = (
        f"{len(once)} of the local times that {zone} has twice stand in the file once; read as the first "
        "pass (daylight time) where the order allows it"
    )
    return UtcStamps(instant, zone, (warning,))
