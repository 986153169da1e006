from __future__ import annotations

import pytest

from trainer.errors import ConfigError

NIGHTS = [
    ("Africa/Cairo", "2023-10-26 23:00"),  # a Thursday
    ("America/Santiago", "2024-04-06 23:00"),  # a Saturday, before midnight
    ("America/Sao_Paulo", "2019-02-16 23:30"),
    ("Asia/Tehran", "2021-09-21 23:00"),  # a Tuesday
    ("Asia/Damascus", "2021-10-28 23:00"),
    ("Asia/Gaza", "2022-10-29 01:00"),
    ("America/New_York", "2024-11-03 01:00"),
    ("Australia/Lord_Howe", "2024-04-07 01:30"),
    ("Europe/London", "2024-10-27 01:00"),
]


def night(clock):
    day, hour = clock.split(" ")
    earlier = f"{day} {int(hour[:2]) - 1:02}{hour[2:]}"
    return [earlier, clock, clock]


@pytest.mark.parametrize(("zone", "clock"), NIGHTS)
def test_equal_bars_of_an_hour_that_occurs_twice_are_no_duplicates(read, flat, zone, clock):
    text = flat(night(clock), [7, 7, 7])
    with pytest.raises(ConfigError, match="lines 3 and 4") as refusal:
        read(text)
    assert refusal.value.key == "data.tz"
    bars = read(text, tz=zone)
    assert len(bars) == 3
    assert bars.findings.duplicates_dropped == 0


@pytest.mark.parametrize("clock", ["2024-07-16 23:00", "2024-03-31 03:30", "2024-06-02 01:00"])
def test_equal_bars_of_any_other_night_are_dropped_and_counted(read, flat, clock):
    bars = read(flat(night(clock), [7, 7, 7]))
    assert len(bars) == 2
    assert bars.findings.duplicates_dropped == 1
