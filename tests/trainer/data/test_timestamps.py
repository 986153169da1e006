from __future__ import annotations

import numpy as np
import pytest

from trainer.errors import ConfigError, DataError, FoxtuneError

HOUR = 3600 * 10**9
FALL_BACK = [
    *("2024-11-02 22:00", "2024-11-02 23:00", "2024-11-03 00:00", "2024-11-03 01:00", "2024-11-03 01:00"),
    *(f"2024-11-03 0{hour}:00" for hour in range(2, 8)),
]


def instants(*texts):
    return [int(np.datetime64(text, "ns").astype(np.int64)) for text in texts]


def ends(bars):
    return [int(bars.timestamp[0]), int(bars.timestamp[-1])]


def test_an_hour_that_occurs_twice_becomes_two_bars(read, flat):
    bars = read(flat(FALL_BACK), tz="America/New_York")
    assert len(bars) == 11
    assert ends(bars) == instants("2024-11-03T02:00", "2024-11-03T12:00")
    assert np.diff(bars.timestamp).tolist() == [HOUR] * 10


def test_a_reversed_file_keeps_both_passes_of_the_hour_in_order(read, flat):
    bars = read(flat(FALL_BACK[::-1], list(range(20, 31))), tz="America/New_York")
    assert np.diff(bars.timestamp).tolist() == [HOUR] * 10
    assert bars.close.tolist() == list(range(30, 19, -1))


def test_half_hours_that_occur_twice_keep_their_order(read, flat):
    stamps = [
        "2024-11-03 00:30",
        *(f"2024-11-03 01:{m}" for m in ("00", "30", "00", "30")),
        "2024-11-03 02:00",
    ]
    bars = read(flat(stamps), tz="America/New_York")
    assert np.diff(bars.timestamp).tolist() == [HOUR // 2] * 5


def test_a_fall_back_in_the_southern_autumn_is_read_too(read, flat):
    stamps = ["2024-04-07 01:00", "2024-04-07 02:00", "2024-04-07 02:00", "2024-04-07 03:00"]
    bars = read(flat(stamps), tz="Australia/Sydney")
    assert np.diff(bars.timestamp).tolist() == [HOUR] * 3


@pytest.mark.parametrize("closes", [None, [100] * 11], ids=["different prices", "equal prices"])
def test_a_repeated_local_hour_without_a_zone_is_refused_by_lines_and_key(read, flat, closes):
    with pytest.raises(FoxtuneError, match=r"lines 5 and 6.*data\.tz"):
        read(flat(FALL_BACK, closes))


def test_a_repeated_half_hour_without_a_zone_names_the_key(read, flat):
    stamps = [f"2024-11-03 01:{m}" for m in ("00", "30", "00", "30")]
    with pytest.raises(FoxtuneError, match=r"line 4.*data\.tz"):
        read(flat(stamps))


def test_a_local_hour_that_occurs_once_is_read_as_the_first_pass_and_said_so(read, flat):
    bars = read(flat(["2024-11-03 00:00", "2024-11-03 01:00", "2024-11-03 02:00"]), tz="America/New_York")
    assert np.diff(bars.timestamp).tolist() == [HOUR, 2 * HOUR]
    assert len(bars.findings.warnings) == 1


def test_a_local_time_that_clocks_skip_is_refused(read, flat):
    with pytest.raises(ConfigError, match=r"data\.tz: .*line 3: 2024-03-10T02:00:00 does not exist"):
        read(flat(["2024-03-10 01:00", "2024-03-10 02:00", "2024-03-10 03:00"]), tz="America/New_York")


def test_a_daily_bar_on_a_skipped_midnight_is_kept(read, flat):
    assert len(read(flat(["2018-11-03", "2018-11-04", "2018-11-05"]), tz="America/Sao_Paulo")) == 3


def test_an_unknown_zone_is_refused_with_the_nearest_known_one(read, flat):
    with pytest.raises(ConfigError, match=r"data\.tz: .*'America/NewYork'; did you mean 'America/New_York'"):
        read(flat(["2024-01-01", "2024-01-02"]), tz="America/NewYork")


@pytest.mark.parametrize("zone", ["localtime", "Factory", "posixrules", "right/Europe/Berlin"])
def test_a_zone_that_differs_between_machines_or_counts_leap_seconds_is_refused(read, flat, zone):
    with pytest.raises(ConfigError, match="unknown time zone") as caught:
        read(flat(["2024-01-01 09:30", "2024-01-01 10:30"]), tz=zone)
    assert caught.value.key == "data.tz"


@pytest.mark.parametrize(("unit", "scale"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_the_unit_of_epoch_numbers_is_told_by_magnitude(read, flat, unit, scale):
    bars = read(flat([(1_704_067_200 + 3600 * row) * scale for row in range(5)]))
    assert ends(bars) == instants("2024-01-01T00:00", "2024-01-01T04:00")
    assert np.diff(bars.timestamp).tolist() == [HOUR] * 4
    assert f"epoch {unit} " in bars.findings.time_unit


@pytest.mark.parametrize("written", ["1704067200.25", "1.70406720025e9"])
def test_seconds_with_a_fraction_are_exact(read, flat, written):
    bars = read(flat([written, "1704067201.5"]))
    assert ends(bars) == instants("2024-01-01T00:00:00.250", "2024-01-01T00:00:01.500")


def test_a_given_unit_is_believed(read, flat):
    assert ends(read(flat([0, 60_000]), timestamp_unit="ms")) == instants("1970-01-01", "1970-01-01T00:01")


def test_epoch_seconds_before_1970_are_read(read, flat):
    assert ends(read(flat([-630_720_000, -630_633_600]))) == instants("1950-01-06", "1950-01-07")


@pytest.mark.parametrize(
    ("stamps", "keys"),
    [
        ([1_704_067_200_000, 1_704_070_800_000], {"timestamp_unit": "s"}),
        ([17_040_672_000, 17_040_708_000], {}),
        ([0, 1, 2, 3], {}),
        ([45_000, 45_001], {}),
        ([1_704_067_200_000, 1_704_070_800_000_000], {}),
    ],
    ids=["far future", "year 2510", "row numbers", "spreadsheet days", "two units"],
)
def test_epoch_numbers_of_another_unit_are_refused_by_key(read, flat, stamps, keys):
    with pytest.raises(ConfigError, match=r"data\.timestamp_unit"):
        read(flat(stamps), **keys)


@pytest.mark.parametrize("stamp", ["2124-01-04", "1850-01-01", "9999-12-31"])
def test_dates_outside_the_calendar_are_refused_by_line(read, flat, stamp):
    with pytest.raises(DataError, match=r"line 3, column timestamp: .*outside 1900"):
        read(flat(["2024-01-01", stamp, "2024-01-03"]))


@pytest.mark.parametrize(
    "form",
    [
        "{}T00:00:00Z",
        "{}T00:00:00+00:00",
        "{} 00:00:00 UTC",
        "{}",
        "{} 00:00",
        "{}T02:00:00+0200",
        "{}T05+05",
    ],
)
def test_iso_forms_name_the_same_instant(read, flat, form):
    bars = read(flat([form.format(day) for day in ("2024-01-01", "2024-01-02")]))
    assert ends(bars) == instants("2024-01-01", "2024-01-02")


@pytest.mark.parametrize("form", ["2024/1/{}", "2024.01.0{}", "2024010{}"])
def test_year_first_dates_are_read_unasked(read, flat, form):
    assert ends(read(flat([form.format(3), form.format(4)]))) == instants("2024-01-03", "2024-01-04")


def test_offsets_may_differ_between_rows(read, flat):
    bars = read(flat(["2024-03-10T01:00:00-05:00", "2024-03-10T03:00:00-04:00"]))
    assert ends(bars) == instants("2024-03-10T06:00", "2024-03-10T07:00")


def test_a_zone_beside_offsets_is_not_used_and_said_so(read, flat):
    bars = read(flat(["2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"]), tz="Europe/Berlin")
    assert ends(bars) == instants("2024-01-01T00:00", "2024-01-01T01:00")
    assert "data.tz" in bars.findings.warnings[0]


def test_a_mix_of_offsets_and_naive_times_is_refused(read, flat):
    with pytest.raises(DataError, match=r"line 3, column timestamp"):
        read(flat(["2024-01-01T00:00:00Z", "2024-01-01T01:00:00"]))


def test_an_ambiguous_date_is_refused_with_both_readings(read, flat):
    with pytest.raises(ConfigError) as caught:
        read(flat(["03.01.2024", "04.01.2024"]))
    assert '"%d.%m.%Y" (3 January 2024) or data.date_format = "%m.%d.%Y" (1 March 2024)' in str(caught.value)


@pytest.mark.parametrize(
    ("stamps", "pattern"),
    [
        (["03.01.2024", "14.01.2024"], "%d.%m.%Y"),
        (["01/31/2024 14:30", "02/01/2024 14:30"], "%m/%d/%Y %H:%M"),
        (["03-Jan-2024", "04-Jan-2024"], "%d-%b-%Y"),
    ],
)
def test_the_one_format_that_fits_is_proposed_and_works(read, flat, stamps, pattern):
    with pytest.raises(ConfigError, match=r"data\.date_format") as caught:
        read(flat(stamps))
    assert f'data.date_format = "{pattern}"' in str(caught.value)
    assert len(read(flat(stamps), date_format=pattern)) == 2


def test_a_given_format_decides_the_order_of_day_and_month(read, flat):
    bars = read(flat(["03.01.2024", "04.01.2024"]), date_format="%d.%m.%Y")
    assert ends(bars) == instants("2024-01-03", "2024-01-04")


def test_a_format_that_does_not_fit_names_the_line_and_one_that_does(read, flat):
    with pytest.raises(ConfigError, match=r'line 3.*does not match.*data.date_format = "%d.%m.%Y"'):
        read(flat(["03.01.2024", "14.01.2024"]), date_format="%m.%d.%Y")


@pytest.mark.parametrize("cell", ["2024-02-30", "hello", "", "2024"])
def test_a_cell_that_is_no_date_is_named_by_its_line(read, flat, cell):
    with pytest.raises(DataError, match="line 3, column timestamp"):
        read(flat(["2024-02-28", cell, "2024-03-01"]))


def test_date_and_time_columns_are_joined(read):
    text = "Date,Time,Open,High,Low,Close\n2024-01-01,9:30,1,1,1,1\n2024-01-01,10:31,1,1,1,1\n"
    assert ends(read(text)) == instants("2024-01-01T09:30", "2024-01-01T10:31")


def test_compact_date_and_time_columns_are_joined(read):
    text = "<DATE>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>\n20240101,093000,1,1,1,1\n20240101,093100,1,1,1,1\n"
    assert ends(read(text)) == instants("2024-01-01T09:30", "2024-01-01T09:31")


def test_an_ambiguous_date_is_shown_by_a_cell_that_tells_the_readings_apart(read, flat):
    stamps = ["01/01/2024", "02/01/2024", "03/01/2024"]
    with pytest.raises(ConfigError) as caught:
        read(flat(stamps))
    assert "'02/01/2024' is ambiguous" in str(caught.value)
    assert "(2 January 2024)" in str(caught.value)
    assert "(1 February 2024)" in str(caught.value)


def test_a_second_header_is_called_one(read, flat):
    lines = flat(["2024-01-01", "2024-01-02"]).splitlines()
    with pytest.raises(DataError, match="line 3, column timestamp: the header stands here again"):
        read("\n".join([*lines[:2], lines[0], *lines[2:]]))


@pytest.mark.parametrize(("given", "fit"), [("s", "ms"), ("us", None)])
def test_a_wrong_unit_is_refused_with_the_one_that_fits(read, flat, given, fit):
    stamps = [1704067200000, 1704070800000] if fit else [-9 * 10**18, -8 * 10**18]
    with pytest.raises(ConfigError) as caught:
        read(flat(stamps), timestamp_unit=given)
    end = f'; set data.timestamp_unit = "{fit}"' if fit else "if it is not in us"
    assert str(caught.value).endswith(end)


@pytest.mark.parametrize("zone", ["UTC", "EST", "Europe/London"])
def test_a_zone_whose_clocks_do_not_go_back_there_may_be_the_wrong_one(read, flat, zone):
    stamps = ["2024-11-03 00:00", "2024-11-03 01:00", "2024-11-03 01:00", "2024-11-03 02:00"]
    with pytest.raises(DataError, match=f"or set data.tz to their zone if it is not {zone}"):
        read(flat(stamps), tz=zone)
