"""data.date_format: what a format must say, so that no part of a date is made up or left out."""

import numpy as np
import pytest

from trainer.errors import ConfigError

HOUR = 3_600_000_000_000  # ns
NOON = np.datetime64("2024-01-02T12:00").astype("datetime64[ns]").astype(np.int64)


@pytest.mark.parametrize("pattern", ["mixed", "ISO8601", "YYYY-MM-DD"])
def test_a_word_that_is_no_strptime_form_is_refused_and_the_form_that_fits_proposed(read, flat, pattern):
    with pytest.raises(ConfigError, match=r'names no year.*set data\.date_format = "%d\.%m\.%Y"') as caught:
        read(flat(["03.01.2024", "14.01.2024"]), date_format=pattern)
    assert caught.value.key == "data.date_format"
    assert repr(pattern) in str(caught.value)


@pytest.mark.parametrize(
    ("stamps", "pattern"), [(["01-02", "01-03"], "%m-%d"), (["09:30", "09:31"], "%H:%M")]
)
def test_a_format_without_a_year_is_refused_and_not_read_as_1900(read, flat, stamps, pattern):
    with pytest.raises(ConfigError, match=rf"data\.date_format: '{pattern}' names no year"):
        read(flat(stamps), date_format=pattern)


def test_an_am_or_pm_that_a_24_hour_clock_would_ignore_is_refused(read, flat):
    stamps = ["2024-01-02 11:00 AM", "2024-01-02 12:30 PM", "2024-01-02 01:00 PM"]
    with pytest.raises(ConfigError, match=r"%p.*%H.*use %I") as caught:
        read(flat(stamps), date_format="%Y-%m-%d %H:%M %p")
    assert caught.value.key == "data.date_format"


def test_a_12_hour_clock_without_am_or_pm_is_refused(read, flat):
    with pytest.raises(ConfigError, match=r"data\.date_format: .*%I.* without its AM or PM"):
        read(flat(["2024-01-02 12:30", "2024-01-03 12:30"]), date_format="%Y-%m-%d %I:%M")


def test_a_directive_that_stands_twice_is_refused_in_one_sentence(read, flat):
    with pytest.raises(ConfigError, match=r"data\.date_format: '%Y-%m-%d %Y' is no date format"):
        read(flat(["2024-01-02 2024"]), date_format="%Y-%m-%d %Y")


def test_the_zone_that_a_percent_z_reads_counts(read, flat):
    # Eastern standard time is five hours behind UTC.
    bars = read(flat(["2024-01-02 07:00 EST", "2024-01-02 08:00 EST"]), date_format="%Y-%m-%d %H:%M %Z")
    assert bars.timestamp.tolist() == [NOON, NOON + HOUR]
    assert bars.findings.time_zone == "UTC (said by the file)"


def test_the_offset_behind_gmt_is_proposed(read, flat):
    stamps = ["02.01.2024 13:00:00.000 GMT+0100", "14.01.2024 13:00:00.000 GMT+0100"]
    pattern = "%d.%m.%Y %H:%M:%S.%f GMT%z"
    with pytest.raises(ConfigError, match=rf'set data\.date_format = "{pattern}"'.replace(".%", r"\.%")):
        read(flat(stamps))
    assert read(flat(stamps), date_format=pattern).timestamp[0] == NOON


def test_dates_of_months_are_proposed(read, flat):
    with pytest.raises(ConfigError, match=r'set data\.date_format = "%Y-%m"'):
        read(flat(["2023-12", "2024-01"]))
    assert len(read(flat(["2023-12", "2024-01"]), date_format="%Y-%m")) == 2
