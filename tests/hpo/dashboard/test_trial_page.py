from dataclasses import fields
from xml.etree import ElementTree

import numpy as np
import optuna
import pytest
from optuna.artifacts import FileSystemArtifactStore, get_all_artifact_meta
from optuna.trial import TrialState
from optuna_dashboard import get_note, save_note

from hpo.dashboard.artifact_files import attach, open_store
from hpo.dashboard.equity_picture import equity_picture
from hpo.dashboard.log_tail import last_lines, log_tail
from hpo.dashboard.trial_page import TrialPages
from hpo.study.run_directory import RunDirectory
from trainer.evaluation_file import EvaluationRows, write_evaluation

DAY = 86_400_000_000_000


@pytest.fixture
def trial():
    return optuna.create_study().ask()


def bars(returns, folds=2):
    """Rows of seeds x bars of returns, cut into equal folds."""
    seeds, count = returns.shape
    return EvaluationRows(
        seed=np.repeat(np.arange(seeds), count),
        fold=np.tile(np.arange(count) * folds // count, seeds),
        time=np.tile(np.arange(count) * DAY, seeds),
        ret=returns.ravel(),
        position=np.ones(seeds * count),
        benchmark=np.tile(np.full(count, 0.01), seeds),
        cost=np.zeros(seeds * count),
        impact=np.zeros(seeds * count),
    )


def words(picture):
    return [node.text for node in ElementTree.fromstring(picture).iter() if node.tag.endswith("text")]


def test_the_picture_names_every_seed_with_its_compounded_growth():
    shown = words(equity_picture("trial 7", bars(np.array([[0.1, 0.1], [-0.5, 1.0]]))))
    assert shown[0] == "trial 7"
    assert {"seed 0 +21.0 %", "seed 1 +0.0 %", "buy and hold +2.0 %", "1970-01-01", "1970-01-02"} <= set(
        shown
    )


def test_every_point_of_the_picture_lies_inside_it_and_it_stays_small():
    returns = np.random.default_rng(0).normal(0, 0.02, (8, 5000))
    picture = equity_picture("<title> & more", bars(returns, folds=5))
    assert len(picture) < 100_000
    assert words(picture)[0] == "<title> & more"
    for line in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}polyline"):
        points = np.array([pair.split(",") for pair in line.get("points").split()], dtype=float)
        assert ((points >= 0) & (points <= [640, 300])).all()


def test_a_flat_trial_and_a_bankrupt_one_can_be_drawn():
    assert "trial +0.0 %" in words(equity_picture("flat", bars(np.zeros((1, 4)))))
    assert "trial -100.0 %" in words(equity_picture("ruin", bars(np.array([[0.1, -1.0]]))))


def test_the_tail_of_a_log_begins_with_a_whole_line_and_says_what_is_before(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("first\nsecond line\nthird\n")
    assert log_tail(log) == "first\nsecond line\nthird\n"
    assert log_tail(log, 10) == f"(18 bytes before this are in {log})\nthird\n"
    assert log_tail(tmp_path / "absent") == ""
    assert last_lines("a\nbb\nccc", 2, 2) == ["bb", "cc ..."]


def test_an_artifact_of_a_driver_that_died_is_replaced_and_not_doubled(tmp_path, trial):
    store = open_store(tmp_path / "artifacts")
    for text in ("old", "new"):
        attach(store, trial, "log.txt", "text/plain", text)
    (meta,) = get_all_artifact_meta(trial)
    assert (meta.filename, meta.mimetype) == ("log.txt", "text/plain")
    with FileSystemArtifactStore(tmp_path / "artifacts").open_reader(meta.artifact_id) as content:
        assert content.read() == b"new"


def test_a_failed_trial_gets_reason_and_log_and_keeps_what_people_wrote(tmp_path, trial):
    directory = RunDirectory(tmp_path)
    directory.clear_trial(0)
    (directory.trial(0) / "log.txt").write_text("begun\nNaN\n")
    save_note(trial, "watch this one")
    TrialPages(directory, artifacts=True).write(trial, TrialState.FAIL, None, "TD error NaN")
    note = get_note(trial)
    assert note.startswith("watch this one\n\n## Trial 0\n\n**FAIL**\n\nReason: TD error NaN")
    assert note.endswith("    begun\n    NaN\n")
    assert [each.filename for each in get_all_artifact_meta(trial)] == ["log.txt"]


def test_a_complete_trial_gets_a_picture_unless_artifacts_are_off(tmp_path):
    directory = RunDirectory(tmp_path)
    study = optuna.create_study()
    found = []
    for artifacts in (True, False):
        trial = study.ask()
        directory.clear_trial(trial.number)
        write_evaluation(directory.trial(trial.number) / "evaluation.parquet", bars(np.full((1, 4), 0.1)))
        TrialPages(directory, artifacts).write(trial, TrialState.COMPLETE, 0.5, None)
        found.append([each.filename for each in get_all_artifact_meta(trial)])
        assert "| buy and hold | 4.1% | 0.0% |" in get_note(trial)
    assert found == [["equity.svg"], []]


def test_buy_and_hold_is_told_over_all_bars_though_the_first_seed_went_bankrupt(tmp_path, trial):
    directory = RunDirectory(tmp_path)
    directory.clear_trial(0)
    whole = bars(np.array([[-1.0, 0.0, 0.0, 0.0], [0.1, 0.0, 0.0, 0.0]]))
    kept = [0, 4, 5, 6, 7]  # bars after a bankruptcy have no rows
    rows = EvaluationRows(*(getattr(whole, field.name)[kept] for field in fields(whole)))
    write_evaluation(directory.trial(0) / "evaluation.parquet", rows)
    TrialPages(directory, artifacts=False).write(trial, TrialState.COMPLETE, -10.0, None)
    assert "| buy and hold | 4.1% | 0.0% |" in get_note(trial)


def test_a_store_that_cannot_be_written_costs_the_artifacts_and_not_the_trial(tmp_path, trial, caplog):
    directory = RunDirectory(tmp_path)
    directory.clear_trial(0)
    (directory.trial(0) / "log.txt").write_text("begun\n")
    directory.artifacts.write_text("a file where the folder should be")
    TrialPages(directory, artifacts=True).write(trial, TrialState.FAIL, None, "killed")
    assert "Reason: killed" in get_note(trial)
    assert "has no artifacts in the dashboard" in caplog.text
