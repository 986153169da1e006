"""Splits no larger than real moves are told by an otherwise ordinary bar, never by the size of the move."""

from dataclasses import replace

import numpy as np
import pytest

from trainer.data.arch_source import load_index
from trainer.data.bar_draft import BarDraft
from trainer.data.likely_splits import RATIOS, likely_splits, split_warnings

DAY = 86_400 * 10**9
ROWS, AT = 80, 50  # bars, and the first of them after the split; it stands in line AT + 2


def walk(rows=ROWS, deviation=0.01, step=DAY):
    """Bars that move by 1 %, have a range of about 2 % and a volume of about 1000."""
    draws = np.random.default_rng(7)
    close = 100 * np.exp(np.cumsum(draws.normal(0, deviation, rows)))
    opened = np.append(100, close[:-1]) * np.exp(draws.normal(0, deviation / 3, rows))
    reach = np.exp(np.abs(draws.normal(0, deviation / 2, (2, rows))))
    high, low = np.maximum(opened, close) * reach[0], np.minimum(opened, close) / reach[1]
    volume = 1000 * np.exp(draws.normal(0, 0.2, rows))
    return BarDraft(
        "made", "line", np.arange(rows) + 2, np.arange(rows) * step,
        opened, high, low, close, volume, None, "percent",
    )  # fmt: skip


def divided(draft, new, old):
    """The bars from AT on after a split of ``old`` shares into ``new``, unadjusted."""
    factor = np.where(np.arange(len(draft)) < AT, 1.0, old / new)
    prices = {name: getattr(draft, name) * factor for name in ("open", "high", "low", "close")}
    return replace(draft, **prices, volume=draft.volume / factor)


def at_bar(draft, **values):
    """The bars with other values at AT."""
    columns = {name: getattr(draft, name).copy() for name in values}
    for name, value in values.items():
        columns[name][AT] = value
    return replace(draft, **columns)


@pytest.mark.parametrize(("new", "old"), [*RATIOS, *((old, new) for new, old in RATIOS)])
def test_every_usual_ratio_is_found_forwards_and_reversed(new, old):
    [found] = likely_splits(divided(walk(), new, old))
    assert (found.row, found.likeness) == (AT, f"{old}/{new}")


def test_the_warning_names_line_closes_ratio_and_both_ways_out():
    [warning] = split_warnings(divided(walk(), 5, 4))
    assert warning.startswith("line 52, column close: ")
    assert "close to 4/5" in warning
    assert warning.endswith("adjust the prices or add a column Adj Close, else set data.allow_jumps = true")


def test_a_history_without_a_split_raises_no_alarm():
    assert likely_splits(walk()) == []
    assert split_warnings(walk()) == ()


def test_a_fall_of_a_fifth_within_a_bar_is_a_fall():
    """It opens where the last one closed, and so its range is as wide as the fall."""
    whole, split = walk(), divided(walk(), 5, 4)
    fallen = at_bar(split, open=whole.open[AT], high=whole.high[AT])
    assert likely_splits(fallen) == []


def test_a_fall_of_a_fifth_overnight_with_the_volume_of_news_is_a_fall():
    split = divided(walk(), 5, 4)
    assert likely_splits(at_bar(split, volume=4000.0)) == []
    assert likely_splits(at_bar(split, volume=300.0)) == []
    assert len(likely_splits(at_bar(split, volume=0.0))) == 1  # no volume bears no witness
    assert len(likely_splits(at_bar(divided(walk(step=DAY // 24), 5, 4), volume=4000.0))) == 1  # hourly bars


def test_a_fall_of_a_fifth_with_a_wide_range_is_a_fall():
    split = divided(walk(), 5, 4)
    assert likely_splits(at_bar(split, low=split.low[AT] * 0.9)) == []


def test_a_gap_off_every_ratio_is_a_gap():
    assert likely_splits(divided(walk(), 1.13, 1)) == []
    assert likely_splits(divided(walk(), 4.6, 4)) == []


def test_where_a_fifth_is_an_ordinary_move_it_is_no_split():
    assert likely_splits(divided(walk(deviation=0.06), 5, 4)) == []


def test_a_bar_of_a_close_alone_must_lie_close_to_the_ratio():
    def flat(after):
        close = np.array([100.0, 100.5] * 10 + [after] * 10)
        return replace(walk(30), open=close, high=close, low=close, close=close, volume=np.ones(30))

    assert [found.likeness for found in likely_splits(flat(100.5 * 0.8))] == ["4/5"]
    assert likely_splits(flat(100.5 * 0.8 * 1.012)) == []


def test_two_bars_are_enough_for_a_warning():
    two = divided(walk(), 5, 4).take(slice(AT - 1, AT + 1))
    assert [found.row for found in likely_splits(two)] == [1]


def test_differences_and_long_pauses_have_no_ratio():
    split = divided(walk(), 5, 4)
    assert likely_splits(replace(split, returns="difference")) == []
    pause = split.timestamp + np.where(np.arange(ROWS) < AT, 0, 100 * DAY)
    assert likely_splits(replace(split, timestamp=pause)) == []


@pytest.mark.parametrize("name", ["sp500", "nasdaq"])
def test_twenty_years_of_an_index_raise_no_alarm(name):
    bars = load_index(name, "percent")
    draft = BarDraft(
        name, "row", np.arange(len(bars)), bars.timestamp,
        bars.open, bars.high, bars.low, bars.close, bars.volume, None, "percent",
    )  # fmt: skip
    assert likely_splits(draft) == []


def test_a_file_with_a_split_is_read_with_one_warning_unless_jumps_are_allowed(read):
    split = divided(walk(), 5, 4)
    days = np.datetime64("2024-01-01") + np.arange(ROWS)
    rows = [
        f"{day},{split.open[i]},{split.high[i]},{split.low[i]},{split.close[i]},{split.volume[i]}"
        for i, day in enumerate(days)
    ]
    text = "timestamp,open,high,low,close,volume\n" + "\n".join(rows)
    [warning] = read(text).findings.warnings
    assert "line 52" in warning
    assert "2024-02-20" in warning
    assert read(text, allow_jumps=True).findings.warnings == ()
