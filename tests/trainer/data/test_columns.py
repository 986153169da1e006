from __future__ import annotations

import pytest

from trainer.errors import DataError

ROWS = ["2020-08-28,499,499.5,499,499.23,{},1", "2020-08-31,129,129.04,129,129.04,{},1"]


@pytest.mark.parametrize(
    "name",
    ["Adj Close", "adjustedClose", "5. adjusted close", "adj close*", "Close (adj)", "AdjClose", "close_adj"],
)
def test_an_adjusted_close_is_used_however_it_is_named(read, name):
    header = f"Date,Open,High,Low,Close,{name},Volume"
    bars = read("\n".join([header, ROWS[0].format(124.8075), ROWS[1].format(129.04)]))
    assert bars.findings.adjusted
    assert bars.close.tolist() == [124.8075, 129.04]


@pytest.mark.parametrize("name", ["Unadjusted", "Adjustment", "Adj Volume", "Unadjusted Close"])
def test_what_is_no_adjusted_close_is_not_used(read, name):
    header = f"Date,Open,High,Low,Close,{name},Volume"
    rows = [ROWS[0].format(1), ROWS[1].format(2)]
    assert not read("\n".join([header, *rows]), allow_jumps=True).findings.adjusted


@pytest.mark.parametrize("title", ["sep=;", "https://www.example.com", "# exported\n", "Apple; daily"])
@pytest.mark.parametrize(("delimiter", "shown"), [(";", '";"'), ("\t", '"tab"'), ("|", "|")])
def test_a_header_of_another_delimiter_is_found_below_a_title(read, title, delimiter, shown):
    header = delimiter.join(["Date", "Open", "High", "Low", "Close"])
    with pytest.raises(DataError) as refusal:
        read(f"{title}\n{header}\n" + delimiter.join(["2024-01-01", "1", "1", "1", "1"]))
    assert "data.delimiter" in str(refusal.value)
    assert shown in str(refusal.value)
    assert f"line {2 + title.count(chr(10))}" in str(refusal.value)


def test_two_header_lines_of_tickers_are_told_how_to_avoid(read):
    text = "Price,Close,High,Low,Open\nTicker,SPY,SPY,SPY,SPY\nDate,,,,\n2024-01-01,1,1,1,1\n"
    with pytest.raises(DataError, match="multi_level_index=False"):
        read(text)


@pytest.mark.parametrize(
    ("header", "cells", "volume", "note"),
    [
        (
            "<TICKVOL>,<VOL>",
            ["10,0", "12,0"],
            [10, 12],
            "column <VOL> is empty or 0: <TICKVOL> is the volume",
        ),
        ("<TICKVOL>,<VOL>", ["10,3", "12,0"], [3, 0], None),
        ("Volume,Tick Volume", ["0,0", "0,0"], [0, 0], None),
        (
            "Volume,Tick Volume",
            [",5", ",7"],
            [5, 7],
            "column Volume is empty or 0: Tick Volume is the volume",
        ),
        ("Volume", ["", ""], [0, 0], "no volume in the file: 0 is used"),
    ],
)
def test_a_volume_that_is_never_traded_gives_way_to_one_that_is(read, header, cells, volume, note):
    rows = [f"2024-01-0{day},1,1,1,1,{cell}" for day, cell in enumerate(cells, start=1)]
    bars = read(f"date,open,high,low,close,{header}\n" + "\n".join(rows))
    assert bars.volume.tolist() == volume
    assert bars.findings.notes == (() if note is None else (note,))
