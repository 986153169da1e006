"""Bars that stand still: a filled weekend, a broken feed."""

import numpy as np

HEADER = "timestamp,open,high,low,close,volume\n"


def stamps(count):
    return np.datetime64("2024-01-05T20:00") + np.arange(count) * np.timedelta64(60, "m")


def bars(closes):
    rows = zip(stamps(len(closes)), closes, strict=True)
    lines = [f"{stamp},{close},{close},{close},{close},1" for stamp, close in rows]
    return HEADER + "\n".join(lines) + "\n"


def test_a_filled_weekend_is_told_with_its_bars_and_both_ends(read):
    # Rows 0 to 3 trade; 4 to 51 repeat row 3, 48 of them; then the market opens again.
    found = read(bars([101, 102, 103, 104, *[104] * 48, 105, 106])).findings.warnings
    assert found == (
        "48 bars repeat the prices of the bar before, 10 or more in a row, the longest from "
        "2024-01-05T23:00:00 to 2024-01-07T23:00:00 (lines 5 and 53), as where a feed stood still or a pause "
        "was filled; leave such rows out unless the market was open",
    )


def test_all_long_runs_are_counted_and_short_ones_are_not(read):
    closes = [*[1] * 11, *[2] * 10, *[3] * 13]  # 10, 9 and 12 repeats
    (found,) = read(bars(closes), allow_jumps=True).findings.warnings
    assert found.startswith("22 bars repeat")
    assert "from 2024-01-06T17:00:00 to 2024-01-07T05:00:00 (lines 23 and 35)" in found


def test_a_close_that_stays_while_the_range_changes_is_no_stale_price(read):
    lines = [f"{stamp},4,{5 + row},3,4,1" for row, stamp in enumerate(stamps(30))]
    assert read(HEADER + "\n".join(lines)).findings.warnings == ()
