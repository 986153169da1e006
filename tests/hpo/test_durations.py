"""Durations read the same in a file and on the command line."""

import faulthandler
import threading

import pytest

from hpo.config import SearchConfig
from hpo.durations import LONGEST, exact_duration, format_duration, parse_duration
from hpo.effective_config import Assignment, resolve
from trainer.config import validated
from trainer.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90.0), ("30m", 1800.0), ("2h", 7200.0), ("1h30m", 5400.0), ("1.5h", 5400.0), ("45", 45.0)],
)
def test_durations_are_read_in_seconds(text, seconds):
    assert parse_duration(text) == seconds
    assert validated(SearchConfig, {"time_budget": text}).time_budget == seconds


@pytest.mark.parametrize("text", ["", "m", "0s", "0", "-5m", "30 m", "30min", "half an hour"])
def test_anything_else_is_refused_with_the_key(text):
    with pytest.raises(ConfigError, match=r"^resources\.timeout: `timeout` must be a duration like 90s"):
        validated(SearchConfig, {"resources": {"timeout": text}})


def test_a_configuration_file_may_hold_the_text_or_plain_seconds(tmp_path):
    file = tmp_path / "search.toml"
    file.write_text('time_budget = "30m"\n[resources]\ntimeout = 45\n')
    config = resolve([], file).config
    assert (config.time_budget, config.resources.timeout) == (1800.0, 45.0)
    flag = Assignment("time_budget", "90s", "--time-budget")
    assert resolve([flag], file).config.time_budget == 90.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(80.4, "80 s"), (90, "2 min"), (725, "12 min"), (11_100, "3 h 5 min")]
)
def test_durations_are_written_for_people(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (30.0, "30 s"),
        (0.5, "0.5 s"),
        (90.0, "90 s"),
        (1800.0, "1800 s (30 min)"),
        (5400.0, "5400 s (1 h 30 min)"),
    ],
)
def test_a_setting_is_said_in_exact_seconds(seconds, text):
    assert exact_duration(seconds) == text


@pytest.mark.parametrize("given", ["99999999999d", 1e12, float("inf")])
def test_a_time_for_which_no_clock_can_wait_is_refused(given):
    with pytest.raises(ConfigError, match=r"^resources\.timeout: "):
        validated(SearchConfig, {"resources": {"timeout": given}})


def test_the_longest_time_can_be_waited_for(tmp_path):
    with (tmp_path / "hang.txt").open("w") as file:
        faulthandler.dump_traceback_later(LONGEST, file=file)
        faulthandler.cancel_dump_traceback_later()
    assert LONGEST < threading.TIMEOUT_MAX
