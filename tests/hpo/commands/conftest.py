"""A training small enough for a test, and a way to run commands in a folder of their own."""

import pytest

from hpo.__main__ import main

SMALL = {
    "episodes": 2,
    "episode_length": 16,
    "batch_size": 16,
    "capacity": 64,
    "trunk_widths": "8",
    "head_width": 8,
    "num_atoms": 5,
    "updates": 2,
}


@pytest.fixture
def small() -> list[str]:
    """Flags of a training that takes a fraction of a second."""
    words = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    return ["--data", "synthetic:known_answer:400:1", "--epochs", "2", "--folds", "3", *words]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command line in an empty folder without GPUs; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def running(*words: str) -> tuple[int, str, str]:
        code = main(words)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return running
