"""foxtune replay and train --from-study, on a study that holds one honest trial and one falsified one."""

from pathlib import Path

import optuna
import pytest


def test_the_trial_that_was_recorded_is_repeated_bit_for_bit(run, study):
    code, out, err = run("replay", "--study", "s", "--number", "0")
    assert (code, err) == (0, "")
    assert "study s, trial 0, COMPLETE" in out
    assert out.rstrip().endswith(f"equal bit for bit in 2 epochs; objective {study.trials[0].value!r}")


def test_best_needs_no_number(run, study):
    assert "study s, trial 0," in run("replay", "s", "--best", "--dry")[1]
    assert "study s, trial 0," in run("replay", "s", "--dry")[1]


def test_another_score_is_shown_and_ends_with_one(run, study):
    code, out, _ = run("replay", "s", "--number", "1")
    assert code == 1
    recorded = study.trials[1].value
    assert f"epoch 2: recorded {recorded!r}, replayed {study.trials[0].value!r}" in out
    assert "NOT equal in 2 of 2 epochs" in out


def test_dry_prints_the_record_and_trains_nothing(run, study):
    code, out, _ = run("replay", "s", "--number", "1", "--dry")
    assert code == 0
    assert "gamma = " in out
    assert study.trials[1].user_attrs["data_hash"] in out
    assert '"batch_size":16' in out
    assert not Path("runs/s/replays").exists()


@pytest.mark.parametrize("number", ["3", "-1"])
def test_a_number_that_is_not_there_is_refused_with_the_range(run, study, number):
    code, _, err = run("replay", "s", "--number", number)
    assert code == 2
    assert f"study 's' has the trials 0 to 2, but got {number}" in err


def test_a_trial_without_a_score_points_to_train(run, study):
    code, _, err = run("replay", "s", "--number", "2")
    assert code == 2
    assert "foxtune train --from-study s --number 2" in err


def test_other_data_is_refused(run, study):
    code, _, err = run("replay", "s", "--data", "synthetic:known_answer:400:2")
    assert code == 2
    assert "data.path: trial 0 saw data with hash" in err


def test_train_takes_a_trials_configuration_and_flags_go_above_it(run, study):
    code, out, _ = run(
        "train", "--from-study", "s", "--number", "2", "--inline", "--epochs", "1", "--out", "one"
    )
    assert code == 0
    record = Path("one/config.toml").read_text()
    assert "batch_size = 16  # study s, trial 2" in record
    assert "epochs = 1  # --epochs" in record
    assert "1/1" in out


def test_report_is_written_into_the_studys_folder(run, study):
    code, out, _ = run("report", "s")
    assert code == 0
    assert Path(out.strip()) == Path("runs/s/report.html").absolute()
    assert "<html" in Path("runs/s/report.html").read_text()[:200].lower()


@pytest.mark.parametrize("command", [("replay",), ("replicate", "--seeds", "2")])
def test_an_output_folder_that_cannot_be_made_is_refused_before_anything_is_trained(run, study, command):
    Path("taken").touch()
    code, out, err = run(*command, "--study", "s", "--out", "taken/here")
    assert code == 2
    assert err.startswith("foxtune: error: --out: taken/here cannot be written to (Not a directory)")
    assert "1/2" not in out  # an epoch
    assert optuna.load_study(storage=study._storage, study_name="s").user_attrs == study.user_attrs
