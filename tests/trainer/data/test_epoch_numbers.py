from __future__ import annotations

import pytest

from trainer.errors import ConfigError, DataError

NET = [638_396_640_000_000_000 + hour * 36_000_000_000 for hour in range(3)]  # 2024-01-01T00:00, hourly
FILETIME = [133_485_408_000_000_000 + hour * 36_000_000_000 for hour in range(3)]


@pytest.mark.parametrize(("stamps", "words"), [(NET, ".NET ticks"), (FILETIME, "FILETIME")])
def test_counts_from_another_origin_are_not_taken_for_nanoseconds(read, flat, stamps, words):
    with pytest.raises(ConfigError, match=words) as refusal:
        read(flat(stamps))
    assert refusal.value.key == "data.timestamp_unit"
    assert read(flat(stamps), timestamp_unit="ns").timestamp.tolist() == stamps


def test_nanoseconds_that_only_pass_through_such_a_range_are_nanoseconds(read, flat):
    stamps = [year * 31_556_952 * 10**9 for year in range(3, 40)]
    assert read(flat(stamps)).timestamp.tolist() == stamps


@pytest.mark.parametrize(
    ("stamps", "fix"), [([31_536_000_000, 31_539_600_000], "ms"), ([1_704_067_200_000], "ms")]
)
def test_the_unit_that_fits_is_proposed(read, flat, stamps, fix):
    with pytest.raises(ConfigError, match=f'set data.timestamp_unit = "{fix}"'):
        read(flat([*stamps, stamps[-1] + 1]), timestamp_unit="s")


def test_numbers_that_fit_no_unit_have_to_be_mended(read, flat):
    with pytest.raises(ConfigError, match="mend the cell"):
        read(flat([4 * 10**18, 4 * 10**18 + 1]))


@pytest.mark.parametrize(
    ("stamps", "pattern"),
    [
        ([1999010100, 1999010101, 1999010223], "%Y%m%d%H"),
        ([199901010000, 199901010100, 199901010200], "%Y%m%d%H%M"),  # milliseconds of May 1976
        ([20240131235900, 20240131235959, 20240201000000], "%Y%m%d%H%M%S"),
        ([20240131235900000, 20240131235900250, 20240131235900500], "%Y%m%d%H%M%S%f"),
    ],
)
def test_a_date_that_is_written_as_a_number_is_no_epoch(read, flat, stamps, pattern):
    with pytest.raises(ConfigError, match=rf'set data.date_format = "{pattern}"') as refusal:
        read(flat(stamps))
    assert refusal.value.key == "data.date_format"
    assert f"{stamps[0]} is " in str(refusal.value)
    mended = read(flat(stamps), date_format=pattern)
    digits = str(mended.timestamp[0].astype("datetime64[ns]"))
    assert digits.startswith(f"{str(stamps[0])[:4]}-{str(stamps[0])[4:6]}-{str(stamps[0])[6:8]}T")


def test_a_number_whose_fields_are_no_date_is_an_epoch_and_a_given_unit_is_believed(read, flat):
    milliseconds = [199_913_010_000, 199_913_010_100]  # no month 13
    assert read(flat(milliseconds)).timestamp.tolist() == [each * 10**6 for each in milliseconds]
    dates = [199_901_010_000, 199_901_010_100]
    assert read(flat(dates), timestamp_unit="ms").timestamp.tolist() == [each * 10**6 for each in dates]


def test_numbers_that_a_spreadsheet_has_shortened_are_refused_with_the_line_and_the_cell(read, flat):
    days = ["1.70407E+12", "1.70415E+12", "1.70424E+12"]  # days from 1 January 2024, up to an hour off
    with pytest.raises(DataError) as refusal:
        read(flat(days))
    assert str(refusal.value).endswith(
        "lines 2, 3, 4 (3 in all), column timestamp: 1.70407E+12 has lost its last digits, "
        "as in a spreadsheet; export the column again as whole numbers"
    )
    with pytest.raises(DataError, match="lost its last digits"):
        read(flat(days), timestamp_unit="ms")


def test_numbers_with_an_exponent_that_hold_all_digits_are_read(read, flat):
    hours = ["1.7040672e+18", "1.7040708e+18"]  # 2024-01-01T00:00 and 01:00, as pandas writes floats
    assert read(flat(hours)).timestamp.tolist() == [1_704_067_200 * 10**9, 1_704_070_800 * 10**9]


def test_a_spreadsheet_s_count_of_days_is_named_and_no_unit_is_proposed_for_it(read, flat):
    # Day 1 is 1 January 1900 and the 29 February of that year counts, so that 45292 is 1 January 2024.
    with pytest.raises(ConfigError) as refusal:
        read(flat([45292, 45293.5, 45294]))
    assert refusal.value.key == "data.timestamp_unit"
    assert str(refusal.value).endswith(
        "column timestamp: 45292 looks like a spreadsheet's count of days (2024-01-01); export the column "
        "again as dates"
    )


@pytest.mark.parametrize(
    ("stamps", "pattern"),
    [
        (["240131", "240201"], "%y%m%d"),
        (["31012024", "01022024"], "%d%m%Y"),
        (["2024031", "2024032"], "%Y%j"),
        (["202411", "202412"], "%Y%m"),
    ],
)
def test_a_short_date_that_is_written_as_a_number_has_its_format_proposed(read, flat, stamps, pattern):
    with pytest.raises(ConfigError, match=rf'set data\.date_format = "{pattern}" \(') as refusal:
        read(flat(stamps))
    assert refusal.value.key == "data.date_format"
    assert len(read(flat(stamps), date_format=pattern)) == 2


def test_whole_numbers_that_were_stored_as_floats_are_the_dates_they_were(read, flat):
    bars = read(flat(["20240131.0", "20240201.0"]))  # as pandas writes integers beside an empty cell
    assert bars.timestamp.astype("datetime64[ns]").astype("datetime64[D]").astype(str).tolist() == [
        "2024-01-31",
        "2024-02-01",
    ]


@pytest.mark.parametrize("cell", ["1e999", "1e99999999", "9" * 400, "-1e30"])
@pytest.mark.parametrize("unit", [None, "ms"])
def test_a_number_beyond_any_epoch_is_refused_with_its_line(read, flat, cell, unit):
    with pytest.raises(DataError, match=r"line 3, column timestamp: .* is beyond any time") as caught:
        read(flat([1_704_067_200_000, cell, 1_704_074_400_000]), timestamp_unit=unit)
    assert len(str(caught.value)) < 300
