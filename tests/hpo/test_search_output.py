"""What a real search prints: JSON through a pipe, a table on a terminal, and nothing of Ray's."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 120
WORDS = [
    *("--data", "synthetic:known_answer:400:1", "--epochs", "2", "--folds", "3", "--trials", "2"),
    *("--gpus-per-trial", "0", "--set", "episodes=2", "--set", "episode_length=16", "--set", "batch_size=16"),
    *("--set", "capacity=64", "--set", "trunk_widths=8", "--set", "head_width=8", "--set", "num_atoms=5"),
    *("--set", "updates=2", "--set", "stopping.pruner=none", "--study", "s"),
]
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  trial \d COMPLETE -?\d+\.\d{4} \+- \d+\.\d{4}: .*")
NOISE = ("Tip:", "usage stats", "ray.", "(pid=", "WARNING", "INFO", "Traceback", "Warning")


def environment():
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "TUNE_"))}
    return {**kept, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": "120"}


@pytest.mark.slow
def test_through_a_pipe_stdout_is_json_alone_and_stderr_one_line_a_trial(tmp_path):
    command = [sys.executable, "-m", "hpo", "tune", *WORDS, "--json"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == [
        *("start", "trial_started", "trial_finished", "trial_started", "trial_finished", "summary")
    ]
    assert events[-1]["complete"] == 2
    assert events[-1]["best"]["value"] == max(events[2]["value"], events[4]["value"])
    assert Path(events[-1]["report"]).is_file()
    assert [word for word in NOISE if word in done.stderr] == []
    assert "search finished: 2 complete" in done.stderr


@pytest.mark.slow
def test_on_a_terminal_a_table_is_drawn_and_taken_away_again(tmp_path):
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "hpo", "tune", *WORDS]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=slave, text=True
    ) as process:
        os.close(slave)
        drawn = read_all(master)
        printed = process.stdout.read()
    assert process.returncode == 0
    assert re.search(r"s: \d/2 trials in ", drawn)
    assert "running 1  complete " in drawn
    assert re.search(r"trial 1 COMPLETE .*\[2/2, best ", drawn)
    assert drawn.rstrip().endswith("\x1b[2K")
    assert "\x1b" not in printed
    assert "search finished: 2 complete" in printed
    assert [word for word in NOISE if word in drawn + printed] == []


def read_all(terminal):
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()
