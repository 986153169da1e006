"""Date and time of day in two columns."""

import datetime

import pandas as pd
import pytest

from trainer.config import DataConfig
from trainer.data.sources import load_bars
from trainer.errors import ConfigError, DataError


def text(times, date="20240102"):
    rows = [f"{date},{time},{close},{close},{close},{close}" for close, time in enumerate(times, start=100)]
    return "\n".join(["Date,Time,Open,High,Low,Close", *rows]) + "\n"


@pytest.mark.parametrize(
    "times",
    [
        ["0", "93000", "100000", "153000"],  # numbers that have lost their leading zeros
        ["000000", "093000", "100000", "153000"],
        ["0", "930", "1000", "1530"],
        ["0000", "0930", "1000", "1530"],
        ["00:00", "9:30", "10:00", "15:30"],
    ],
)
def test_a_time_of_day_is_joined_to_its_date_with_or_without_leading_zeros(read, times):
    stamps = read(text(times)).timestamp.astype("datetime64[ns]").astype("datetime64[m]")
    assert [str(each) for each in stamps] == [
        "2024-01-02T00:00", "2024-01-02T09:30", "2024-01-02T10:00", "2024-01-02T15:30",
    ]  # fmt: skip


@pytest.mark.parametrize("times", [["1 PM", "2 PM"], ["1704067200", "1704067260"], ["open", "close"]])
def test_bars_of_one_date_are_not_dropped_as_duplicates_because_their_time_is_not_understood(read, times):
    rows = text(times).replace("101", "100")  # equal prices: the rows differ in their time alone
    with pytest.raises(DataError) as refusal:
        read(rows)
    message = str(refusal.value)
    assert "lines 2, 3 (2 in all), column Time: " in message
    assert repr(times[0]) in message
    assert message.endswith("write HH:MM:SS, or date and time in one column")


def test_a_time_column_that_says_nothing_new_is_left_alone(read):
    rows = [f"2024-01-0{day},1D,{day},{day},{day},{day}" for day in (6, 7, 8)]
    assert len(read("Date,Time,Open,High,Low,Close\n" + "\n".join(rows))) == 3


def test_an_hour_that_does_not_exist_is_refused(read):
    with pytest.raises((ConfigError, DataError), match="line 3, column Date: '2024-01-02 09:99'"):
        read(text(["0930", "0999", "1030"]))


def parquet(folder, **columns):
    prices = {name: [10.0, 10.0] for name in ("open", "high", "low", "close")}
    pd.DataFrame({**columns, **prices}).to_parquet(folder / "bars.parquet")
    return DataConfig(path=str(folder / "bars.parquet"))


def test_whole_numbers_in_parquet_are_read_as_in_text(tmp_path):
    bars = load_bars(parquet(tmp_path, date=[20240102, 20240102], time=[0, 93000]))
    assert (bars.timestamp[1] - bars.timestamp[0]) / 1e9 == 9.5 * 3600
    assert load_bars(parquet(tmp_path, date=[20240102, 20240103])).median_step == 86400.0


def test_a_parquet_date_beside_a_parquet_time_is_refused_and_not_merged(tmp_path):
    day, times = datetime.date(2024, 1, 2), [datetime.time(9), datetime.time(10)]
    with pytest.raises(DataError, match="column time: '09:00:00' and '10:00:00' of one date"):
        load_bars(parquet(tmp_path, date=[day, day], time=times))
