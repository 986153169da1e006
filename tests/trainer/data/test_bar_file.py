from __future__ import annotations

import numpy as np
import pytest

from trainer.errors import ConfigError, DataError, FoxtuneError

DAYS = [f"2024-01-0{day}" for day in range(1, 10)]
HEADER = "timestamp,open,high,low,close,volume\n"
GOOD = "2024-01-0{},10,11,9,10,1\n"


def test_a_newest_first_file_is_turned_round_and_said_so(read, flat):
    bars = read(flat(DAYS[3::-1], [103, 102, 101, 100]))
    assert bars.findings.reversed
    assert bars.close[-1] / bars.close[0] - 1 == pytest.approx(0.03, abs=1e-12)


def test_conflicting_rows_are_refused_with_both_lines_and_values(read, flat):
    with pytest.raises(DataError, match=r"lines 3 and 4, column close: .* 10\.0 and 10\.5"):
        read(flat([DAYS[0], DAYS[1], DAYS[1]], [9.9, 10.0, 10.5]))


def test_conflicting_rows_of_a_newest_first_file_are_named_in_file_order(read, flat):
    with pytest.raises(DataError, match=r"lines 3 and 4, column close: .* 10\.0 and 10\.5"):
        read(flat([DAYS[2], DAYS[1], DAYS[1], DAYS[0]], [9.9, 10.0, 10.5, 9.0]))


def test_identical_rows_are_dropped_and_counted(read, flat):
    bars = read(flat([DAYS[0], DAYS[1], DAYS[1], DAYS[1]], [9.9, 10.0, 10.0, 10.0]))
    assert (len(bars), bars.findings.duplicates_dropped) == (2, 2)


def test_an_unsorted_file_is_refused_by_line(read, flat):
    with pytest.raises(DataError, match=r"line 4, column timestamp: 2024-01-02.* after 2024-01-05.* line 3"):
        read(flat([DAYS[0], DAYS[4], DAYS[1], DAYS[5]]))


def test_a_negative_price_is_refused_naming_line_and_key(read, flat):
    with pytest.raises(DataError, match=r"close <= 0 at line 3, close -37\.63.*data\.returns"):
        read(flat(DAYS[:3], [18.27, -37.63, 10.01]))


def test_a_negative_price_is_legal_under_difference_returns(read, flat):
    bars = read(flat(DAYS[:3], [18.27, -37.63, 10.01]), returns="difference")
    assert bars.close.tolist() == [18.27, -37.63, 10.01]
    assert bars.returns == "difference"


def test_bad_rows_are_listed_per_rule_with_five_lines_and_the_count(read):
    text = HEADER + GOOD.format(1)
    text += "".join(f"2024-01-{day:02d},10,11,9,,1\n" for day in range(2, 9))
    text += "2024-01-09,10,11,9,0,1\n2024-01-10,10,9,9.5,10,1\n2024-01-11,10,11,9,10,-3\n"
    with pytest.raises(DataError) as caught:
        read(text)
    message = str(caught.value)
    assert "close is empty at lines 3, 4, 5, 6, 7, ... (7 in all)" in message
    assert "close <= 0 at line 10, close 0" in message
    assert "high < low at line 11, high 9, low 9.5" in message
    assert "high < max(open, close) at line 11, high 9, max 10" in message
    assert "volume < 0 at line 12, volume -3" in message
    assert "data.repair" in message


def test_low_above_the_body_is_refused(read):
    with pytest.raises(DataError, match=r"low > min\(open, close\) at line 3, low 10\.5, min 10"):
        read(HEADER + GOOD.format(1) + "2024-01-02,10,11,10.5,11,1\n")


@pytest.mark.parametrize("cell", ["inf", "-inf", "1e31"])
def test_an_infinite_cell_is_refused(read, cell):
    with pytest.raises(DataError, match="high is infinite or beyond 1e30 at line 2"):
        read(HEADER + f"2024-01-01,10,{cell},9,10,1\n" + GOOD.format(2))


def test_dropping_leaves_out_bad_bars_and_reports_the_counts(read):
    text = HEADER + GOOD.format(1) + "2024-01-02,10,11,9,,1\n" + GOOD.format(3)
    bars = read(text, repair="drop")
    assert len(bars) == 2
    assert [(repair.rule, repair.bars) for repair in bars.findings.repairs] == [("close is empty (drop)", 1)]


def test_filling_makes_flat_bars_at_the_last_good_close_without_volume(read):
    text = HEADER + "2024-01-01,1,2,3,4,5\n" + "2024-01-02,10,11,9,10.5,7\n" + "2024-01-03,10,,9,99,1\n"
    bars = read(text, repair="ffill")
    assert bars.open.tolist() == [10, 10.5]
    assert (bars.high[1], bars.low[1], bars.close[1], bars.volume[1]) == (10.5, 10.5, 10.5, 0)
    assert bars.findings.repairs[-1].rule == "before the first good bar (dropped)"


def test_a_good_file_reports_no_repairs(read, flat):
    assert read(flat(DAYS), repair="ffill").findings.repairs == ()


def test_an_unadjusted_split_is_refused_by_line_and_likeness(read, flat):
    with pytest.raises(ConfigError, match=r"data\.allow_jumps: .*line 3.* close to 1/4"):
        read(flat(["2020-08-28", "2020-08-31"], [499.23, 129.04]))


@pytest.mark.parametrize(
    ("ratio", "likeness"),
    [
        (1 / 2, "1/2"),
        (1 / 3, "1/3"),
        (2 / 3, "2/3"),
        (1 / 7, "1/7"),
        (1 / 20, "1/20"),
        (10, "10/1"),
        (3 / 2, "3/2"),
    ],
)
def test_splits_of_many_kinds_are_told_from_noise(read, flat, ratio, likeness):
    noise = np.exp(np.cumsum(np.random.default_rng(3).normal(0, 0.02, size=60)))
    closes = 100 * noise * np.where(np.arange(60) < 30, 1, ratio)
    closes[30] = closes[29] * ratio * 1.004
    stamps = [str(np.datetime64("2024-01-01") + day) for day in range(60)]
    with pytest.raises(ConfigError, match=rf"line 32.*close to {likeness}"):
        read(flat(stamps, closes))


@pytest.mark.parametrize("move", [-0.205, -0.1, -0.37, -0.443, -0.6, 0.25, 0.6, 1.348])
def test_crashes_and_rallies_pass(read, move):
    # the move happens within the bar: it opens where the last one closed
    last = 100 * (1 + move)
    crash = f"2024-01-03,100,{max(100, last)},{min(100, last)},{last},1\n"
    flat_bars = "".join(f"2024-01-0{day},100,100,100,100,1\n" for day in (1, 2))
    assert len(read(HEADER + flat_bars + crash)) == 3


def test_a_move_that_the_history_knows_is_no_split(read, flat):
    # a bar moves by 10 % as a rule here, so that a halving is nothing special
    closes = 100 * np.exp(np.cumsum(np.where(np.arange(60) % 2 == 0, 0.1, -0.1)))
    closes[30:] /= 2
    stamps = [str(np.datetime64("2024-01-01") + day) for day in range(60)]
    assert len(read(flat(stamps, closes))) == 60


def test_two_units_of_price_are_refused_even_where_they_alternate_all_along(read, flat):
    days = [f"2024-01-{day:02d}" for day in range(1, 31)]
    closes = [1.0 if row % 2 else 100.0 for row in range(30)]  # pounds and pence by turns
    with pytest.raises(ConfigError, match=r"data\.allow_jumps: .*close to 1/100"):
        read(flat(days, closes))


def test_a_price_may_double_over_a_long_pause(read, flat):
    stamps = [str(np.datetime64("2020-01-01") + day) for day in range(30)] + ["2023-01-01"]
    assert len(read(flat(stamps, [100.0] * 30 + [200.0]))) == 31


def test_a_jump_may_be_allowed(read, flat):
    bars = read(flat(["2020-08-28", "2020-08-31"], [499.23, 129.04]), allow_jumps=True)
    assert bars.close[1] / bars.close[0] - 1 == pytest.approx(-0.74152, abs=1e-5)


def test_an_adjusted_close_is_used_and_scales_the_other_prices(read):
    text = (
        "Date,Open,High,Low,Close,Adj Close,Volume\n"
        "2020-08-28,500,505,490,499.23,124.8075,1\n2020-08-31,127.5,131,126,129.04,129.04,1\n"
    )
    bars = read(text)
    assert bars.findings.adjusted
    assert bars.close[1] / bars.close[0] - 1 == pytest.approx(0.033912, abs=1e-6)
    assert [bars.open[0], bars.high[0], bars.low[0]] == pytest.approx([125, 126.25, 122.5], rel=1e-12)


def test_the_range_still_encloses_the_body_after_scaling(read):
    rng = np.random.default_rng(0)
    rows = [
        f"2024-{month:02d}-{day:02d},{o},{max(o, c)},{min(o, c)},{c},{c * 0.37},1\n"
        for month in range(1, 13)
        for day in range(1, 29)
        for o, c in [rng.uniform(90, 110, size=2)]
    ]
    bars = read("date,open,high,low,close,adj close,volume\n" + "".join(rows))
    assert np.all(bars.high >= np.maximum(bars.open, bars.close))
    assert np.all(bars.low <= np.minimum(bars.open, bars.close))


def test_another_separator_is_named_with_the_lines_to_set(read):
    text = "Date;Open;High;Low;Close\n03.01.2024;1,5;1,6;1,4;1,5\n"
    with pytest.raises(DataError) as caught:
        read(text)
    message = str(caught.value)
    assert "column close not found; found ['Date;Open;High;Low;Close']; looks ';'-separated: set" in message
    assert 'data.delimiter = ";" and data.decimal = ","' in message


def test_a_german_file_is_read_once_all_three_keys_are_set(read):
    text = "Date;Open;High;Low;Close\n03.01.2024;1.001,5;1.001,6;1,4;1,5\n04.01.2024;1,5;1,6;1,4;1,5\n"
    bars = read(text, delimiter=";", decimal=",", date_format="%d.%m.%Y")
    assert bars.open.tolist() == [1001.5, 1.5]


def test_a_decimal_comma_unasked_names_the_key(read):
    with pytest.raises(ConfigError, match=r"data\.decimal: .*line 2.*'1,5'"):
        read("date;open;high;low;close\n2024-01-03;1,5;1,5;1,5;1,5\n", delimiter=";")


def test_thousands_separators_are_read_where_they_cannot_be_decimals(read):
    bars = read(
        HEADER + '2024-01-01,"1,234.5","1,300.0",999.5,"1,000.5","12,345"\n2024-01-02,1000,1000,1000,1000,1\n'
    )
    assert (bars.open[0], bars.volume[0]) == (1234.5, 12345)


def test_a_comma_that_may_be_either_names_the_key(read):
    with pytest.raises(ConfigError, match=r"data\.decimal: .*'1,234' may mean"):
        read(HEADER + '2024-01-01,"1,234","1,234","1,234","1,234",1\n')


@pytest.mark.parametrize(
    "header", ["DATE,OPEN,High,Low,CLOSE,Volume", " Date , Open,High,Low,Close, Volume "]
)
def test_case_and_spaces_of_names_do_not_matter(read, flat, header):
    assert len(read(flat(DAYS, header=header))) == 9


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
def test_a_byte_order_mark_is_accepted(read, flat, encoding):
    assert len(read(flat(DAYS).encode(encoding))) == 9


def test_leading_and_inner_comments_are_skipped_and_lines_still_count(read, flat):
    text = "https://www.example.com\n" + flat(DAYS[:2]) + "# a, comment\n\n2024-01-03,1,1,1,x,1\n"
    with pytest.raises(DataError, match="line 7, column close: 'x' is not a number"):
        read(text)
    bars = read("# one\n# two, three\n" + flat(DAYS) + "\n \n")
    assert len(bars) == 9
    assert "skipped 2 leading lines" in bars.findings.notes[0]


def test_windows_line_ends_are_read(read, flat):
    assert len(read(flat(DAYS).replace("\n", "\r\n"))) == 9


def test_a_missing_volume_is_zero_and_said_so(read):
    bars = read("date,open,high,low,close\n2024-01-01,1,1,1,1\n2024-01-02,1,1,1,1\n")
    assert bars.volume.tolist() == [0, 0]
    assert "volume" in bars.findings.notes[0]


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ("", "a.csv", "is empty"),
        ("\n\n", "a.csv", "is empty"),
        (HEADER, "a.csv", "line 1: there is a header but no bar"),
        ("# x\n", "a.csv", "nothing but comments"),
        (bytes(range(256)), "a.csv", "not a text file"),
        (b"\x1f\x8b\x08", "a.csv", "gzip"),
        (b"PK\x03\x04", "a.xlsx", "Excel"),
        ('[{"open": 1}]', "a.csv", "JSON"),
        ("<!DOCTYPE html>\n<html><body>Too many requests", "a.csv", "web page.*download it again"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a.csv", "Git LFS.*git lfs pull"),
        ("a,b", "a.parquet", "no Parquet"),
        (b"PAR1xxxxPAR1", "a.parquet", "no readable Parquet"),
        (HEADER + GOOD.format(1), "a.csv", "2 good bars are needed"),
        (HEADER + GOOD.format(1) + "2024-01-02,1,1\n", "a.csv", "line 3: 3 cells where the header has 6"),
        (
            HEADER + GOOD.format(1) + "Data from a vendor\n",
            "a.csv",
            "line 3: 1 cell where.*remove the line if it is no bar",
        ),
        (HEADER + GOOD.format(1) + '2024-01-02,"1,1,1,1,1\n', "a.csv", "line 3: a quote is opened"),
        ("2024-01-01,1,1,1,1,1\n", "a.csv", "line 1: column close not found.*add a header"),
        ("date,open,high,low,clsoe\n2024-01-01,1,1,1,1\n", "a.csv", "rename 'clsoe' to 'close'"),
        ("date,open,high,low,close,Close\n", "a.csv", "column close stands twice"),
        ("open,high,low,close\n1,1,1,1\n", "a.csv", "column timestamp not found"),
    ],
)
def test_a_file_that_is_no_bar_file_is_refused_in_one_line(read, content, name, words):
    with pytest.raises(FoxtuneError, match=words) as caught:
        read(content, name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["sp50", "/nowhere/bars.csv", "."])
def test_a_path_that_is_no_file_names_the_key(path):
    from trainer.config import DataConfig
    from trainer.data.sources import load_bars

    with pytest.raises(ConfigError, match=r"data\.path: ") as caught:
        load_bars(DataConfig(path=path))
    assert ("did you mean 'sp500'" in str(caught.value)) == (path == "sp50")


def test_a_delimiter_of_two_characters_is_refused(read, flat):
    with pytest.raises(ConfigError, match=r"data\.delimiter: .*';;'"):
        read(flat(DAYS), delimiter=";;")
