"""foxtune train: a table line per epoch, a checkpoint that continues bit for bit, clear refusals."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from hpo.commands.train_directory import run_directory
from trainer.errors import ConfigError
from trainer.training import Training


def epoch_lines(text: str) -> list[str]:
    """The table without its last column, the seconds."""
    found = [line.split() for line in text.splitlines() if re.match(r"\s*\d+/\d+ ", line)]
    return [" ".join(words[:-1]) for words in found]


def test_every_epoch_is_one_line_with_losses_gap_folds_and_score(run, small):
    code, out, err = run("train", *small, "--out", "here")
    assert (code, err) == (0, "")
    header = next(line for line in out.splitlines() if "critic" in line)
    assert header.split() == (
        [
            "epoch",
            "critic",
            "value",
            "V",
            "gap",
            "fold",
            "0",
            "fold",
            "1",
            "fold",
            "2",
            "wf_sharpe",
            "seconds",
        ]
    )
    lines = epoch_lines(out)
    assert [line.split()[0] for line in lines] == ["1/2", "2/2"]
    assert all(len(line.split()) == 4 + 3 + 3 for line in lines)
    assert "reference backend on the CPU (0 GPUs visible)" in out
    assert "years of test bars" in out
    assert "foxtune train --resume --out here" in out


def test_what_is_odd_about_a_file_is_called_a_warning(run, small, tmp_path):
    closes = [*(100 + row % 5 for row in range(280)), *[105] * 20]  # the first of the twenty repeats nothing
    days = [np.datetime64("2020-01-01") + row for row in range(300)]
    rows = [f"{day},{close},{close},{close},{close},1" for day, close in zip(days, closes, strict=True)]
    file = tmp_path / "stands_still.csv"
    file.write_text("date,open,high,low,close,volume\n" + "\n".join(rows))
    code, out, _ = run("train", *small, "--data", str(file), "--epochs", "1", "--out", "here")
    assert code == 0
    (line,) = [line for line in out.splitlines() if "repeat the prices of the bar before" in line]
    assert line.startswith("warning: 19 bars repeat")


@pytest.mark.parametrize(
    ("key", "fix"),
    [("seed", "set training.seed"), ("time_budget", "leave it out"), ("stopping.pruner", "leave it out")],
)
def test_a_key_that_only_a_search_heeds_is_refused_on_the_command_line(run, small, key, fix):
    value = {"seed": "5", "time_budget": "30s", "stopping.pruner": "none"}[key]
    code, out, err = run("train", *small, "--set", f"{key}={value}", "--dry-run")
    assert (code, out) == (2, "")
    assert err == (
        f"foxtune: error: {key}: decides a search, which train is not, but got --set {key}={value}; {fix}\n"
    )


def test_an_interrupted_training_continues_bit_for_bit(run, small, monkeypatch):
    _, whole, _ = run("train", *small, "--epochs", "3", "--out", "whole")

    original = Training.run_epoch
    calls = []

    def interrupted(self):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(self.epoch)
        return original(self)

    arguments = (*small, "--epochs", "3", "--set", "checkpoint_seconds=0", "--out", "parts")
    with monkeypatch.context() as patched:
        patched.setattr(Training, "run_epoch", interrupted)
        code, first, err = run("train", *arguments)
    assert code == 130
    assert "foxtune train --resume --out parts" in first
    assert err == "foxtune: interrupted\n"
    code, second, _ = run("train", "--resume", "--out", "parts")
    assert code == 0
    joined = dict(line.split(" ", 1) for line in (*epoch_lines(first), *epoch_lines(second)))
    assert joined == dict(line.split(" ", 1) for line in epoch_lines(whole))


def test_the_record_lets_resume_know_the_configuration(run, small):
    run("train", *small, "--out", "here")
    code, out, _ = run("train", "--resume", "--epochs", "3", "--out", "here")
    assert code == 0
    assert [line.split()[0] for line in epoch_lines(out)] == ["3/3"]


def test_a_resume_with_other_numbers_is_refused_and_changes_nothing(run, small):
    run("train", *small, "--out", "here")
    before = Path("here/config.toml").read_text()
    code, _, err = run("train", "--resume", "--out", "here", "--set", "gamma=0.5", "--epochs", "3")
    assert code == 2
    assert "agent.gamma 0.95 -> 0.5" in err
    assert Path("here/config.toml").read_text() == before


def test_a_training_is_not_overwritten(run, small):
    run("train", *small, "--out", "here")
    code, out, err = run("train", *small, "--out", "here")
    assert (code, out) == (2, "")
    assert err.startswith("foxtune: error: --out: here already holds a training")


def test_fewer_folds_than_min_folds_are_refused_before_training(run, small):
    code, _, err = run("train", *small, "--folds", "2", "--out", "here")
    assert code == 2
    assert "walk_forward.min_folds" in err
    assert not Path("here").exists()


def test_a_dry_run_prints_folds_shapes_and_bytes_and_writes_nothing(run, small):
    code, out, _ = run("train", *small, "--seeds", "2", "--dry-run")
    assert code == 0
    assert "6 members = 3 folds x 2 seeds" in out
    assert re.search(r"replay +prefix \[6, 64, 8\] +\d+\.\d\d MiB", out)
    assert re.search(r"total +a stored transition is 105 bytes +\d+\.\d\d MiB", out)
    assert not Path("runs").exists()


def test_a_dry_run_of_one_fold_and_one_seed_speaks_in_the_singular(run, small):
    code, out, _ = run("train", *small, "--folds", "1", "--set", "min_folds=1", "--dry-run")
    assert code == 0
    assert "1 member = 1 fold x 1 seed" in out


def test_hidden_gpus_are_refused_before_the_data_is_read(run, small, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    code, out, err = run("train", *small, "--data", "absent.csv")
    assert (code, out) == (2, "")
    assert "0 GPUs visible (CUDA_VISIBLE_DEVICES='')" in err
    assert "resources.gpu" in err
    assert "--backend reference" in err


def test_a_number_needs_a_study(run):
    code, _, err = run("train", "--number", "3")
    assert code == 2
    assert err == "foxtune: error: --number: needs --from-study, but got only --number 3\n"


def test_resume_takes_the_newest_training(tmp_path):
    for name, age in (("a", 2), ("b", 1)):
        path = tmp_path / name / "checkpoint.pt"
        path.parent.mkdir()
        path.touch()
        os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / "unfinished").mkdir()
    assert run_directory(None, True, tmp_path) == tmp_path / "b"


def test_resume_without_an_earlier_training_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="--resume: needs an earlier training"):
        run_directory(None, True, tmp_path)


def test_two_trainings_of_one_second_get_two_folders(tmp_path, monkeypatch):
    monkeypatch.setattr("hpo.commands.train_directory.time.strftime", lambda form: "now")
    (tmp_path / "now").mkdir()
    assert run_directory(None, False, tmp_path) == tmp_path / "now-2"


@pytest.mark.parametrize("out", ["taken", "taken/inside"])
def test_a_folder_that_cannot_be_made_is_refused_before_training(run, small, tmp_path, out):
    (tmp_path / "taken").write_text("a file")
    code, _, err = run("train", *small, "--out", str(tmp_path / out))
    assert code == 2
    assert re.fullmatch(
        r"foxtune: error: --out: \S+ cannot be written to \([^)]+\); choose another folder\n", err
    )


def test_a_training_refused_at_its_start_leaves_nothing_behind(run, small, tmp_path):
    out = tmp_path / "new"
    code, _, err = run("train", *small, "--out", str(out), "--set", "achieved_offset=500")
    assert code == 2
    assert "hindsight.achieved_offset" in err
    assert not out.exists()


def test_what_others_left_in_the_folder_stays(run, small, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    code, _, _ = run("train", *small, "--out", str(tmp_path), "--set", "achieved_offset=500")
    assert code == 2
    assert (tmp_path / "notes.txt").exists()
    assert not (tmp_path / "config.toml").exists()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 728. TiB"),
        RuntimeError("can't allocate memory: you tried to allocate 64 bytes"),
    ],
)
def test_a_training_beyond_the_memory_is_refused_in_one_sentence(run, small, tmp_path, monkeypatch, error):
    def exhausted(*_arguments, **_keywords):
        raise error

    monkeypatch.setattr("trainer.training.run_training", exhausted)
    code, _, err = run("train", *small, "--out", str(tmp_path / "new"))
    assert code == 2
    assert re.match(r"foxtune: error: agent\.batch_size: there is no memory for \d+\.? \w+; lower it", err)
    assert not (tmp_path / "new").exists()


def test_an_interruption_before_the_first_checkpoint_says_that_nothing_is_left(
    run, small, tmp_path, monkeypatch
):
    def interrupted(*_arguments, **_keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("trainer.training.run_training", interrupted)
    code, out, _ = run("train", *small, "--out", str(tmp_path / "new"))
    assert code == 130
    assert "nothing to continue" in out
    assert not (tmp_path / "new").exists()
