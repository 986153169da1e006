from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from trainer.config import DataConfig
from trainer.data.sources import load_bars
from trainer.errors import ConfigError, DataError

START = 1_704_085_200_000_000_000  # 2024-01-01T05:00Z, midnight in New York


@pytest.fixture
def frame():
    index = pd.date_range("2024-01-01", periods=5, freq="h", tz="America/New_York", name="Date")
    return pd.DataFrame(
        {name: np.arange(5) + 10.0 for name in ("Open", "High", "Low", "Close", "Volume")}, index=index
    )


@pytest.fixture
def reread(tmp_path):
    def build(frame, name="bars.parquet", **keys):
        frame.to_parquet(tmp_path / name)
        return load_bars(DataConfig(path=str(tmp_path / name), **keys))

    return build


@pytest.mark.parametrize("name", ["bars.parquet", "bars.dat"])
def test_a_zoned_index_is_the_timestamp_whatever_the_extension(frame, reread, name):
    bars = reread(frame, name)
    assert bars.timestamp[0] == START
    assert bars.close.tolist() == [10, 11, 12, 13, 14]


def test_a_naive_index_is_local_under_a_zone(frame, reread):
    frame.index = frame.index.tz_localize(None).rename(None)
    assert reread(frame, tz="America/New_York").timestamp[0] == START
    assert reread(frame).timestamp[0] == START - 5 * 3600 * 10**9


@pytest.mark.parametrize("kind", ["int64", "float64", "str"])
def test_epoch_numbers_of_any_type_are_read(frame, reread, kind):
    seconds = (START // 10**9 + 3600 * np.arange(5)).astype(np.int64)
    bars = reread(frame.reset_index(drop=True).assign(timestamp=seconds).astype({"timestamp": kind}))
    assert bars.timestamp.tolist() == [START + hour * 3600 * 10**9 for hour in range(5)]


def test_dates_without_a_time_are_midnights(frame, reread):
    days = [stamp.date() for stamp in pd.date_range("2024-01-01", periods=5)]
    assert (
        np.diff(reread(frame.reset_index(drop=True).assign(date=days)).timestamp).tolist()
        == [86400 * 10**9] * 4
    )


def test_an_empty_cell_is_named_by_its_row(frame, reread):
    frame.iloc[2, 3] = np.nan
    with pytest.raises(DataError, match="close is empty at row 3"):
        reread(frame)


def test_an_empty_timestamp_is_named_by_its_row(frame, reread):
    flat = frame.reset_index()
    flat.loc[3, "Date"] = pd.NaT
    with pytest.raises(DataError, match="row 4, column Date: the timestamp is empty"):
        reread(flat)


def test_a_column_of_truth_values_is_no_price(frame, reread):
    with pytest.raises(DataError, match="column Open holds bool"):
        reread(frame.assign(Open=True))


def test_text_prices_are_read_as_in_a_csv(frame, reread):
    assert reread(frame.astype({"Close": "str"})).close.tolist() == [10, 11, 12, 13, 14]


def test_decimals_become_the_floats_that_their_text_names(frame, reread):
    prices = ["99.99", "101.23", "0.07", "1234.56", "69.97"]
    for name in ("Open", "High", "Low", "Close"):
        frame[name] = [Decimal(price) for price in prices]
    assert reread(frame, allow_jumps=True).close.tolist() == [float(price) for price in prices]


@pytest.mark.parametrize("narrow", [("high", "low"), ("open", "close"), ("close",), ("high",)])
def test_prices_of_several_widths_are_read_in_the_narrowest_and_enclose_the_body(reread, narrow):
    close = np.array([100.35, 101.17, 101.51, 100.19, 98.87])  # none of them has 24 bits
    frame = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=5)})
    for name in ("open", "high", "low", "close"):
        frame[name] = close.astype(np.float32 if name in narrow else np.float64)
    bars = reread(frame)
    assert bars.close.tolist() == close.astype(np.float32).astype(np.float64).tolist()
    assert bars.high.tolist() == bars.low.tolist() == bars.close.tolist()
    assert any("several widths" in note and "float" in note for note in bars.findings.notes)


def test_whole_and_decimal_prices_follow_a_narrow_close(tmp_path):
    table = pa.table(
        {
            "date": pa.array(["2024-01-01", "2024-01-02"]),
            "open": pa.array([100, 101], pa.int64()),
            "high": pa.array([Decimal("100.35"), Decimal("101.17")], pa.decimal128(9, 2)),
            "low": pa.array([100, 101], pa.int32()),
            "close": pa.array([100.35, 101.17], pa.float32()),
        }
    )
    parquet.write_table(table, tmp_path / "bars.parquet")
    bars = load_bars(DataConfig(path=str(tmp_path / "bars.parquet")))
    assert bars.high.tolist() == bars.close.tolist() == [float(np.float32(p)) for p in (100.35, 101.17)]


def test_prices_of_one_width_stay_as_they_are(frame, reread):
    assert reread(frame.astype(np.float32)).findings.notes == ()


def test_a_high_that_is_too_low_is_refused_in_any_width(reread):
    frame = pd.DataFrame(
        {"date": pd.date_range("2024-01-01", periods=2), "open": 1.0, "close": 1.5, "low": 1.0}
    )
    with pytest.raises(DataError, match="high < max"):
        reread(frame.assign(high=np.float32([1.5, 1.49])))


@pytest.mark.parametrize("kind", ["string_view", "binary", "large_binary", "binary_view"])
def test_text_is_read_whatever_holds_it(tmp_path, kind):
    dates = [b"2024-01-01", b"2024-01-02"]
    texts = [date.decode() for date in dates] if kind == "string_view" else dates
    prices = {name: [1.0, 2.0] for name in ("open", "high", "low", "close")}
    table = pa.table({"date": pa.array(texts, getattr(pa, kind)()), **prices})
    parquet.write_table(table, tmp_path / "bars.parquet")
    bars = load_bars(DataConfig(path=str(tmp_path / "bars.parquet"), allow_jumps=True))
    assert np.diff(bars.timestamp).tolist() == [86400 * 10**9]


def test_bytes_that_are_no_text_are_refused_by_column(tmp_path):
    prices = {name: [1.0, 2.0] for name in ("open", "high", "low", "close")}
    parquet.write_table(pa.table({"date": [b"\xff\xfe", b"\x00"], **prices}), tmp_path / "bars.parquet")
    with pytest.raises(DataError, match="column date holds bytes"):
        load_bars(DataConfig(path=str(tmp_path / "bars.parquet")))


def test_dates_as_numbers_are_read_alike_from_integers_and_floats(frame, reread):
    days = [20240131, 20240201, 20240202, 20240205, 20240206]
    frame = frame.reset_index(drop=True)
    for stamps in (days, [float(day) for day in days]):
        bars = reread(frame.assign(timestamp=stamps))
        assert bars.timestamp.astype("datetime64[ns]").astype("datetime64[D]").astype(str).tolist() == [
            "2024-01-31",
            "2024-02-01",
            "2024-02-02",
            "2024-02-05",
            "2024-02-06",
        ]


def test_columns_of_several_levels_are_told_how_to_avoid(frame, reread):
    frame.columns = pd.MultiIndex.from_product([frame.columns, ["SPY"]])
    with pytest.raises(DataError, match=r"column close not found.*levels: .*multi_level_index=False"):
        reread(frame)


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_times_in_a_float_too_narrow_for_them_are_refused(frame, reread, kind):
    # In 32 bits neighbouring numbers near 1.7e9 are 128 s apart.
    stamps = (1_704_067_200 + 3600 * np.arange(5) if kind == "float32" else np.arange(5)).astype(kind)
    with pytest.raises(DataError, match=r"holds (half)?float, which rounds times") as caught:
        reread(frame.reset_index(drop=True).assign(timestamp=stamps))
    assert str(caught.value).endswith("store it as int64 or timestamp")


def test_numbers_kept_as_text_are_read_with_the_decimal_sign_given(frame, reread):
    texts = ["10,5", "11,5", "12,5", "11,5", "10,5"]
    frame = frame.assign(**dict.fromkeys(["Open", "High", "Low", "Close"], texts))
    with pytest.raises(ConfigError, match=r'decimal comma; set data\.decimal = ","'):
        reread(frame)
    assert reread(frame, decimal=",").close.tolist() == [10.5, 11.5, 12.5, 11.5, 10.5]


def test_an_infinite_time_is_refused_with_its_row(frame, reread):
    stamps = [1_704_067_200.5, 1_704_070_800.5, np.inf, 1_704_078_000.5, 1_704_081_600.5]
    with pytest.raises(DataError, match="row 3, column timestamp: inf is beyond any time"):
        reread(frame.reset_index(drop=True).assign(timestamp=stamps))
