"""foxtune export and foxtune signal: the positions of the study, of the file and of the evaluation agree."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
import torch

from hpo.commands.signal import moment
from trainer.data.market import load_market
from trainer.evaluation_file import read_evaluation
from trainer.folds import split
from trainer.policy_file import read_policy
from trainer.target_positions import stamp

DATA = "synthetic:known_answer:400:1"


@pytest.fixture
def bars(tmp_path):
    """A CSV of 300 hourly bars, and the flags that train on it."""
    generator = np.random.default_rng(0)
    close = 100 * np.exp(np.cumsum(generator.normal(0, 0.01, 300)))
    lines = ["timestamp,open,high,low,close,volume"]
    for hour, (last, now) in enumerate(zip(np.append(100, close), close, strict=False)):
        time = stamp(hour * 3600 * 10**9)
        lines.append(f"{time},{last!r},{max(last, now) * 1.01!r},{min(last, now) * 0.99!r},{now!r},1")
    path = tmp_path / "bars.csv"
    path.write_text("\n".join(lines).replace("np.float64(", "").replace(")", "") + "\n")
    return path


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_signal_of_a_test_fold_is_what_the_trial_was_scored_on(run, study):
    config = read_policy(Path("runs/s/trials/0000/weights.pt")).config
    market = load_market(config)
    window = split(400, config.walk_forward).folds[2]
    begin = stamp(int(market.bars.timestamp[window.test_start]))
    code, out, err = run("signal", "--study", "s", "--data", DATA, "--from", begin)
    assert code == 0
    assert (
        f"from {begin}, flat before; the features need 128 bars of warm-up, {window.test_start} precede"
        in err
    )
    rows = rows_of(out)
    assert len(rows) == 400 - window.test_start
    scored = read_evaluation(Path("runs/s/trials/0000/evaluation.parquet")).select(0, fold=2)
    size = len(scored.position)
    assert [float(row["seed_0_position"]) for row in rows[1 : size + 1]] == scored.position.tolist()
    assert [row["timestamp"] for row in rows[1 : size + 1]] == [stamp(int(time)) for time in scored.time]
    assert all(row["target"] == row["seed_0_target"] for row in rows)
    assert {row["seed_0_order"] for row in rows} <= {"market", "limit", "adaptive"}
    assert {row["seed_0_urgency"] for row in rows} <= {"patient", "normal", "urgent"}


def test_an_exported_file_gives_the_signal_of_the_study(run, study):
    code, out, err = run("export", "s", "--best", "--out", "out/model.pt")
    assert (code, err) == (0, "")
    assert "study s, trial 0, fold 2, seed 0" in out
    state = torch.load("out/model.pt", weights_only=True)
    assert state["data_hash"] == study.trials[0].user_attrs["data_hash"]
    assert state["origin"]["value"] == study.trials[0].value
    from_study = run("signal", "s", "--number", "0", "--data", DATA)[1]
    assert run("signal", "--model", "out/model.pt", "--data", DATA, "--out", "signal.csv")[:2] == (0, "")
    assert Path("signal.csv").read_text() == from_study
    assert len(rows_of(from_study)) == 400 - 128


def test_a_csv_written_in_another_way_gives_the_same_signal(run, small, bars):
    words = [str(bars) if word == DATA else word for word in small]
    assert run("train", *words, "--gpus-per-trial", "0", "--epochs", "1", "--out", "t")[0] == 0
    code, plain, _ = run("signal", "--model", "t/weights.pt", "--data", str(bars))
    assert code == 0
    Path("other.csv").write_text(bars.read_text().replace(",", ";"))
    signal = ("signal", "--model", "t/weights.pt", "--data", "other.csv")
    assert run(*signal)[0] == 2
    assert run(*signal, "--set", "data.delimiter=;")[:2] == (0, plain)
    daily = "".join(
        line.replace(line[:20], stamp(day * 86_400 * 10**9)) if day >= 0 else line
        for day, line in enumerate(bars.read_text().splitlines(keepends=True), start=-1)
    )
    Path("daily.csv").write_text(daily)
    code, out, err = run("signal", "--model", "t/weights.pt", "--data", "daily.csv")
    assert (code, out) == (2, "")
    assert "trained on, 3600 s between bars (median), but" in err
    assert err.endswith("daily.csv has 86400 s; give bars of 3600 s\n")
    Path("short.csv").write_text("".join(bars.read_text().splitlines(keepends=True)[:129]))
    code, _, err = run("signal", "--model", "t/weights.pt", "--data", "short.csv")
    assert code == 2
    assert "the features need 128 bars of warm-up before the first signal" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["s", "--model", "m.pt"], "--model: is one trial's file already"),
        (["--model", "m.pt"], "a policy must exist at m.pt, but there is none"),
        (["s", "--set", "data.returns=difference"], "--set: must say how --data is read"),
        (["s", "--set", "gamma=0.9"], "--set: must say how --data is read"),
        (["s", "--from", "soon"], "--from: must be a time like 2024-01-31T16:00, but got 'soon'"),
        (["s", "--from", "2999-01-01"], "--from: no bar is that late"),
        (["s", "--out", "none/here.csv"], "--out: none/here.csv cannot be written to"),
    ],
)
def test_what_a_signal_cannot_do_is_one_sentence(run, study, words, message):
    code, _, err = run("signal", *words, "--data", DATA)
    assert code == 2
    assert message in err


@pytest.mark.parametrize("command", ["export", "report"])
def test_a_folder_is_no_file_to_write_to(run, study, command):
    Path("folder").mkdir()
    code, _, err = run(command, "s", "--out", "folder")
    assert code == 2
    assert "--out: folder cannot be written to" in err
    assert list(Path().glob("*.partial")) == []


def test_times_are_utc_unless_they_say_otherwise():
    assert moment("1970-01-02") == 86_400 * 10**9
    assert moment("1970-01-01T01:00+01:00") == 0
    assert moment("1970-01-01T00:00:00.000001Z") == 1000
