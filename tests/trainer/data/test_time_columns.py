"""Files with more than one column of times: taken where all mean the same, else refused."""

import datetime

import pandas as pd
import pytest

from trainer.config import DataConfig
from trainer.data.sources import load_bars
from trainer.errors import DataError

HOUR = 3600
START = 1_704_067_200  # 2024-01-01T00:00Z


@pytest.fixture
def columns(read):
    """Reads flat bars below the columns given as ``name=cells``, in that order; returns their timestamps."""

    def build(clock=(), **cells):
        names = [name.replace("_", " ") for name in cells]
        rows = [
            ",".join([*map(str, row), *[str(100 + index / 8)] * 4])
            for index, row in enumerate(zip(*cells.values(), strict=True))
        ]
        return read("\n".join([",".join([*names, "open,high,low,close"]), *rows])).timestamp // 10**9

    return build


def written(seconds, form="%Y-%m-%d %H:%M:%S"):
    return [datetime.datetime.fromtimestamp(each, datetime.UTC).strftime(form) for each in seconds]


DAYS = [START + day * 24 * HOUR for day in range(5)]
HOURS = [START + hour * HOUR for hour in range(48)]


def test_a_date_that_differs_from_the_timestamp_is_refused_naming_both_and_the_fix(read, tmp_path):
    text = (
        "timestamp,Date,open,high,low,close\n"
        "2024-03-01,2024-01-01,1,1,1,1\n2024-03-02,2024-01-02,2,2,2,2\n2024-03-03,2024-01-03,3,3,3,3\n"
    )
    with pytest.raises(DataError) as refusal:
        read(text)
    assert str(refusal.value) == (
        f"{tmp_path}/bars.csv, lines 2, 3, 4 (3 in all): columns timestamp and Date name different times, "
        "'2024-03-01' and '2024-01-01'; drop or rename the one that is not the time of the bar"
    )


@pytest.mark.parametrize(
    "other",
    [
        [*DAYS[:4], DAYS[4] + 24 * HOUR],  # one day is another
        [DAYS[0]] * 5,  # the time of a download
        DAYS[::-1],
        [day + 60 * 24 * HOUR for day in DAYS],
    ],
)
@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%Y-%m-%dT%H:%M:%SZ"])
def test_other_days_are_another_time_however_they_are_written(columns, other, form):
    with pytest.raises(DataError, match="columns unix and date name different times"):
        columns(unix=DAYS, date=written(other, form))


def test_hours_that_do_not_move_along_are_another_time(columns):
    other = [*HOURS[:40], *(hour + 3 * HOUR for hour in HOURS[40:])]
    with pytest.raises(DataError, match=r"lines 42, 43, 44, 45, 46, \.\.\. "):
        columns(timestamp=written(HOURS), datetime=written(other))


@pytest.mark.parametrize(
    ("seconds", "other"),
    [
        (HOURS, written(HOURS)),
        (HOURS, [1000 * each for each in HOURS]),
        (HOURS, written(HOURS, "%Y-%m-%d %I-%p")),  # CryptoDataDownload, 2019
        (HOURS, written(HOURS, "%d/%m/%Y %H:%M")),  # ambiguous, but one reading agrees
        (HOURS, written(HOURS, "%m/%d/%Y %H:%M")),
        (HOURS, written(HOURS, "%Y-%m-%d")),  # the day alone
        (HOURS, written([each - 5 * HOUR for each in HOURS], "%Y-%m-%d")),  # the day in New York
        (HOURS, written([each + 9 * HOUR for each in HOURS])),  # Tokyo's clock
        (HOURS, written([each + HOUR * (1 + (each > HOURS[20])) for each in HOURS])),  # summer time begins
        ([each + 21 * HOUR for each in DAYS], written(DAYS, "%Y-%m-%d")),  # the close of the day
        (DAYS, written(DAYS, "%Y%m%d")),
    ],
)
def test_columns_that_mean_the_same_are_taken(columns, seconds, other):
    assert columns(timestamp=seconds, date=other).tolist() == seconds


def test_date_and_time_beside_a_timestamp_are_one_time_in_two_columns(columns):
    days, clocks = written(HOURS, "%Y-%m-%d"), written(HOURS, "%H:%M")
    assert columns(timestamp=HOURS, date=days, time=clocks).tolist() == HOURS
    assert columns(date=days, time=clocks).tolist() == HOURS
    with pytest.raises(DataError, match="columns timestamp and date name different times"):
        columns(timestamp=[each + 72 * HOUR for each in HOURS], date=days, time=clocks)


@pytest.mark.parametrize("cells", [["1D"] * 5, ["", "", "", "", ""], [7, 12, 3, 9, 40], ["09:30"] * 5])
def test_what_holds_no_times_is_no_second_time(columns, cells):
    assert columns(date=written(DAYS, "%Y-%m-%d"), t=cells).tolist() == DAYS


def test_row_numbers_are_no_second_time(columns):
    assert columns(index=range(5), date=written(DAYS, "%Y-%m-%d")).tolist() == DAYS


def test_rows_whose_second_time_is_missing_are_not_compared(columns):
    days = written(DAYS, "%Y-%m-%d")
    assert columns(unix=DAYS, date=["", *days[1:4], ""]).tolist() == DAYS
    with pytest.raises(DataError, match=r"line 4: columns unix and date .*, '1704240000' and '2024-02-02'"):
        columns(unix=DAYS, date=["", days[1], "2024-02-02", days[3], ""])


def test_times_of_any_type_in_parquet_are_compared_too(tmp_path):
    prices = {name: [10.0, 11.0, 12.0] for name in ("open", "high", "low", "close")}
    stamps = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])
    path = tmp_path / "bars.parquet"
    pd.DataFrame({"timestamp": stamps.tz_localize("UTC"), "date": stamps.date, **prices}).to_parquet(path)
    assert len(load_bars(DataConfig(path=str(path)))) == 3
    later = stamps + pd.Timedelta(days=40)
    pd.DataFrame({"timestamp": stamps, "date": later, **prices}).to_parquet(path)
    with pytest.raises(DataError, match=r"rows 1, 2, 3 .*: columns timestamp and date name different times"):
        load_bars(DataConfig(path=str(path)))
