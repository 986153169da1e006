from __future__ import annotations

import subprocess
import sys

import pytest

from hpo.trial.watchdog import HANG, Watchdog, has_timed_out, timeout_reason

HANGS = """
import sys, time
from pathlib import Path
from hpo.trial.watchdog import Watchdog

def stuck_in_a_call():
    {call}

dog = Watchdog(0.3, Path(sys.argv[1]))
dog.start()
dog.stop()
dog.start()
stuck_in_a_call()
"""
HOLDS_THE_LOCK = "import re; re.fullmatch('(a+)+b', 'a' * 60)"  # years in C, the interpreter lock held


@pytest.mark.parametrize("call", ["time.sleep(600)", HOLDS_THE_LOCK])
def test_a_process_that_hangs_is_ended_and_leaves_where_it_stood(tmp_path, call):
    done = subprocess.run(
        [sys.executable, "-c", HANGS.format(call=call), str(tmp_path)], timeout=120, check=False
    )
    assert done.returncode == 1
    assert has_timed_out(tmp_path)
    assert "stuck_in_a_call" in (tmp_path / HANG).read_text()


def test_steps_in_time_leave_no_file(tmp_path):
    watchdog = Watchdog(600.0, tmp_path / "0000")
    for _ in range(3):
        watchdog.start()
        watchdog.stop()
    watchdog.close()
    watchdog.close()
    assert not has_timed_out(tmp_path / "0000")
    assert list((tmp_path / "0000").iterdir()) == []


def test_without_a_limit_nothing_is_watched_or_written(tmp_path):
    watchdog = Watchdog(None, tmp_path)
    watchdog.start()
    watchdog.stop()
    watchdog.close()
    assert list(tmp_path.iterdir()) == []


def test_the_reason_starts_with_timeout_and_names_limit_key_and_file():
    assert timeout_reason(90.0) == (
        "timeout: no report for 90 s (resources.timeout); its hang.txt shows where the process stood"
    )
