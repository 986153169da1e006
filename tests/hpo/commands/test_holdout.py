"""foxtune holdout: the figures of the hold-out, and the count of the looks at it."""

import re

import optuna
import pytest

from hpo.commands.holdout import history
from hpo.study.run_directory import RunDirectory
from hpo.study.study_records import HOLDOUT, HoldoutUse, holdout_uses
from trainer.checkpoint import read_checkpoint, write_checkpoint
from trainer.data.market import load_market
from trainer.holdout import evaluate_holdout
from trainer.policy_file import read_policy


def reloaded(study):
    return optuna.load_study(storage=study._storage, study_name="s")


def folder(tmp_path):
    return RunDirectory(tmp_path / "runs" / "s")


def test_each_look_is_counted_in_the_study_and_said(run, study, tmp_path):
    policy = read_policy(folder(tmp_path).trial(0) / "weights.pt")
    result = evaluate_holdout(policy, load_market(policy.config))
    code, first, err = run("holdout", "s")
    assert (code, err) == (0, "")
    assert "trial 0: hold-out of synthetic:known_answer:400:1" in first
    assert "79 bars" in first
    performance = result.seeds[0].performance
    assert f"{performance.sharpe:.3f} +- {performance.standard_error:.3f}" in first
    assert f"{result.buy_and_hold.sharpe:.3f} +- " in first
    assert first.rstrip().endswith(
        "first look at this study's hold-out; date and count are stored in the study"
    )
    (use,) = holdout_uses(reloaded(study))
    assert (use.number, use.trials, use.sharpe) == (0, 3, ((0, performance.sharpe),))
    assert use.buy_and_hold == result.buy_and_hold.sharpe

    code, second, _ = run("holdout", "s", "--best")
    assert code == 0
    assert (
        f"NOT UNTOUCHED: this study's hold-out was looked at once before, on {use.date} (trial 0)" in second
    )
    assert "this is look 2" in second
    assert [each.number for each in holdout_uses(reloaded(study))] == [0, 0]
    assert first.split("first look")[0] == second.split("NOT UNTOUCHED")[0]


def test_every_earlier_date_is_listed():
    looks = [HoldoutUse("2024-01-02T03:04:05Z", 7, 8, ()), HoldoutUse("2025-01-02T03:04:05Z", 1, 9, ())]
    assert history(looks)[0] == (
        "NOT UNTOUCHED: this study's hold-out was looked at 2 times before, on "
        "2024-01-02T03:04:05Z (trial 7), 2025-01-02T03:04:05Z (trial 1); this is look 3"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--number", "1"], "trial 1 has no weights at .*foxtune replay s --number 1 --out .*0001"),
        (["--number", "2"], "trial 2 is FAIL, and only a COMPLETE trial keeps its weights"),
        (["--data", "synthetic:known_answer:400:2"], r"data\.path: trial 0 saw data with hash"),
    ],
)
def test_what_cannot_be_traded_is_refused_and_not_counted(run, study, words, message):
    code, out, err = run("holdout", "s", *words)
    assert (code, out) == (2, "")
    assert re.search(message, err)
    assert holdout_uses(reloaded(study)) == ()


def test_a_running_search_forbids_the_look(run, study, tmp_path):
    with folder(tmp_path).driving("s"):
        code, out, err = run("holdout", "s")
    assert (code, out) == (2, "")
    assert "is being run by pid" in err
    assert holdout_uses(reloaded(study)) == ()


def test_weights_of_other_data_are_refused(run, study, tmp_path):
    path = folder(tmp_path).trial(0) / "weights.pt"
    state = read_checkpoint(path)
    state["data_hash"] = "f" * 64
    write_checkpoint(path, state)
    code, _, err = run("holdout", "s")
    assert code == 2
    assert "was trained on ffffffffffff; restore the trial's own weights" in err


def test_torn_weights_are_refused_with_the_command_that_trains_them_again(run, study, tmp_path):
    path = folder(tmp_path).trial(0) / "weights.pt"
    path.write_bytes(path.read_bytes()[:100])
    code, out, err = run("holdout", "s")
    assert (code, out) == (2, "")
    assert f"{path} is not a whole checkpoint" in err
    assert err.endswith(f"; train it again with foxtune replay s --number 0 --out {path.parent}\n")
    assert holdout_uses(reloaded(study)) == ()


def test_a_look_from_before_errors_and_buy_and_hold_were_kept_is_read(study):
    old = {"date": "2026-03-01T10:00:00Z", "number": 0, "trials": 3, "sharpe": [[0, 0.25]]}
    study.set_user_attr(HOLDOUT, [old])
    (use,) = holdout_uses(study)
    assert use == HoldoutUse("2026-03-01T10:00:00Z", 0, 3, ((0, 0.25),), None, None)
