from __future__ import annotations

import numpy as np
import pytest

from trainer.data.calendar import pause_warnings, periods_per_year
from trainer.errors import ConfigError

MINUTE = 60 * 10**9
DAY = 1440 * MINUTE


def sessions(days, bars):
    """15-minute bars from 14:30 UTC on weekdays of 2022 onwards; 2022-01-03 was a Monday."""
    first = int(np.datetime64("2022-01-03T14:30", "ns").astype(np.int64))
    weekdays = [day for day in range(days) if day % 7 < 5]
    return np.array([first + day * DAY + bar * 15 * MINUTE for day in weekdays for bar in range(bars)])


def test_round_the_clock_quarter_hours():
    assert periods_per_year(np.arange(1000) * 15 * MINUTE) == pytest.approx(35063.28, rel=1e-12)


def test_sessions_are_counted_and_not_assumed():
    # 261 weekdays a year; a real year has 252 sessions
    assert periods_per_year(sessions(365, 26)) == pytest.approx(261 * 26, rel=0.01)


def test_a_year_of_252_sessions_gives_6552_within_a_percent():
    weekdays = sessions(365, 26).reshape(261, 26)
    holidays = np.linspace(5, 250, 9).astype(int)
    assert periods_per_year(np.delete(weekdays, holidays, axis=0).ravel()) == pytest.approx(6552, rel=0.01)


def test_a_given_number_wins_even_where_counting_is_impossible():
    assert periods_per_year(np.array([0]), 252.0) == 252


@pytest.mark.parametrize("days", [30, 59])
def test_a_short_span_with_a_gap_is_ambiguous(days):
    with pytest.raises(ConfigError, match=r"metrics\.periods_per_year: ambiguous.*set metrics"):
        periods_per_year(sessions(days, 26))


def test_a_short_span_without_a_gap_is_not():
    assert periods_per_year(np.arange(48) * 60 * MINUTE) == pytest.approx(8765.82)


def test_a_step_of_exactly_three_medians_is_no_gap():
    steps = np.array([1, 1, 3, 1]) * DAY
    assert periods_per_year(np.concatenate([[0], np.cumsum(steps)])) == pytest.approx(4 / 6 * 365.2425)


def test_one_bar_has_no_year():
    with pytest.raises(ConfigError, match=r"metrics\.periods_per_year: counting needs 2 bars"):
        periods_per_year(np.array([0]))


def test_a_pause_of_years_is_told_in_percent_without_an_overflow():
    # 100 steps over 3751 days, 3652 of them one pause; a hundred times its nanoseconds are beyond int64.
    days = np.array([*range(100), 99 + 3652], dtype=np.int64)
    (found,) = pause_warnings(days * 1440 * MINUTE)
    assert "97 % of the time" in found
    assert "(9.74, without it 365.24)" in found
