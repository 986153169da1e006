from __future__ import annotations

from dataclasses import asdict

import optuna
import pytest
from optuna.trial import TrialState

from hpo.ledger import Decision, StudyLedger
from hpo.storage.storages import open_storage
from hpo.study import attributes
from hpo.study.definition import StudyDefinition
from hpo.study.run_directory import RunDirectory
from hpo.study.studies import create
from trainer.config import Choice, SearchSpace
from trainer.statistics.bootstrap import Interval
from trainer.trial_statistics import STATISTICS_FILE, Earnings, TrialStatistics, write_statistics

DATA = attributes.DataRecord(
    "sp500", "sp500", "d", 252.0, 500, "2020-01-01T00:00:00Z", "2021-12-01T00:00:00Z"
)


@pytest.fixture
def make_ledger(make_search, space, fakes):
    def build(search=None, searched=space):
        search = search or make_search()
        directory = RunDirectory.of(search)
        storage = open_storage(directory.storage_url(search))
        study = create(storage, search.study, StudyDefinition.of(search, searched, "d"), directory)
        return StudyLedger(study, storage, search, searched, DATA, directory, fakes.Silent()), study

    return build


def test_a_complete_trials_value_is_its_last_epochs_score_not_its_best(make_ledger, fakes):
    ledger, study = make_ledger()
    ledger.start("a")
    for epoch, value in ((1, 0.9), (2, 0.7)):
        assert ledger.record("a", (fakes.fake_report(value, epoch, 3),)) is Decision.CONTINUE
    assert ledger.record("a", (fakes.fake_report(0.3, 3, 3),)) is Decision.STOP
    (trial,) = study.get_trials()
    assert (trial.state, trial.value) == (TrialState.COMPLETE, 0.3)
    assert trial.intermediate_values == {1: 0.9, 2: 0.7, 3: 0.3}
    assert trial.user_attrs["fold_sharpe"] == {"0": [0.3, 0.3, 0.3]}
    assert trial.user_attrs["seed_sharpe"] == {"0": 0.3}
    assert trial.user_attrs["trades"] == 5 + 6 + 7
    assert trial.user_attrs["data_hash"] == "d"
    assert trial.user_attrs["data"] == asdict(DATA)
    assert attributes.read_score(trial).value == 0.3
    assert attributes.read_config(trial).agent.iql_expectile_tau == trial.params["iql_expectile_tau"]


def test_a_bad_trial_is_pruned_after_the_grace_epochs_with_its_last_epochs_score(
    make_ledger, make_search, fakes
):
    ledger, study = make_ledger(make_search(epochs=4, stopping={"pruner": "median", "startup_trials": 1}))
    ledger.start("good")
    for epoch in range(1, 5):
        ledger.record("good", (fakes.fake_report(1.0, epoch, 4),))
    ledger.start("bad")
    assert ledger.record("bad", (fakes.fake_report(-2.0, 1, 4),)) is Decision.CONTINUE
    assert ledger.record("bad", (fakes.fake_report(-1.5, 2, 4),)) is Decision.STOP
    trial = study.get_trials()[1]
    assert (trial.state, trial.value) == (TrialState.PRUNED, -1.5)


def test_no_trial_is_pruned_after_its_last_epoch(make_ledger, make_search, fakes):
    ledger, study = make_ledger(make_search(epochs=2, stopping={"startup_trials": 1}))
    for key, value in (("good", 1.0), ("bad", -2.0)):
        ledger.start(key)
        for epoch in (1, 2):
            ledger.record(key, (fakes.fake_report(value, epoch, 2),))
    assert [trial.state for trial in study.get_trials()] == [TrialState.COMPLETE] * 2


def test_epochs_reported_again_after_a_resume_are_skipped_and_missed_ones_are_added(make_ledger, fakes):
    ledger, study = make_ledger()
    ledger.start("a")
    ledger.record("a", (fakes.fake_report(0.1, 1, 3),))
    ledger.record("a", tuple(fakes.fake_report(value, epoch, 3) for epoch, value in ((1, 9.0), (2, 0.2))))
    (trial,) = study.get_trials()
    assert trial.intermediate_values == {1: 0.1, 2: 0.2}


def test_a_finished_trial_keeps_the_record_that_its_training_wrote(make_ledger, make_search, fakes):
    ledger, study = make_ledger()
    earned = Earnings(0.5, 0.1, -0.2)
    record = TrialStatistics(252.0, 100, 0.5, 0.0, Interval(0.1, 0.9, 0.95, 2), earned, earned, (), ())
    folder = RunDirectory.of(make_search()).trial(ledger.start("a").number)
    write_statistics(folder / STATISTICS_FILE, record)
    ledger.record("a", (fakes.fake_report(0.3, 3, 3),))
    assert attributes.read_trial_statistics(study.get_trials()[0]) == record


def test_a_torn_record_is_left_out_and_said(make_ledger, make_search, fakes, caplog):
    ledger, study = make_ledger()
    folder = RunDirectory.of(make_search()).trial(ledger.start("a").number)
    (folder / STATISTICS_FILE).write_text("{")
    ledger.record("a", (fakes.fake_report(0.3, 3, 3),))
    (trial,) = study.get_trials()
    assert trial.state == TrialState.COMPLETE
    assert attributes.read_trial_statistics(trial) is None
    assert "trial 0 keeps no statistics" in caplog.text


def test_a_failed_trial_keeps_reason_and_parameters_and_no_value(make_ledger):
    ledger, study = make_ledger()
    started = ledger.start("a")
    ledger.fail("a", "TD error NaN at step 7, member 0")
    (trial,) = study.get_trials()
    assert (trial.state, trial.value) == (TrialState.FAIL, None)
    assert attributes.read_reason(trial) == "TD error NaN at step 7, member 0"
    assert trial.params == started.params


def test_the_ledger_gives_up_after_failures_in_a_row_and_names_the_commonest_reason(make_ledger, make_search):
    ledger, _ = make_ledger(make_search(trials=20, max_consecutive_bad=3))
    for key, reason in (("a", "NaN at step 1"), ("b", "out of memory"), ("c", "NaN at step 22")):
        assert not ledger.given_up
        ledger.start(key)
        ledger.fail(key, reason)
    assert ledger.given_up
    assert ledger.failures.commonest_reason == "NaN at step 1 (2 of 3 failed trials)"


@pytest.mark.parametrize(("mark", "reason"), [("Timeout!", "timeout: no report for 7 s"), ("", "killed: ")])
def test_a_lost_trial_is_told_apart_as_timed_out_or_killed(make_ledger, make_search, mark, reason):
    ledger, study = make_ledger(make_search(resources={"gpu": 0, "timeout": 7.0}))
    started = ledger.start("a")
    (RunDirectory.of(make_search()).trial(started.number) / "hang.txt").write_text(mark)
    ledger.lose("a")
    ledger.lose("a")
    assert attributes.read_reason(study.get_trials()[0]).startswith(reason)


def test_a_good_trial_between_failures_starts_the_count_again(make_ledger, make_search, fakes):
    ledger, _ = make_ledger(make_search(epochs=1, trials=20, max_consecutive_bad=2))
    for key in "abc":
        ledger.start(key)
        if key == "b":
            ledger.record(key, (fakes.fake_report(0.1, 1, 1),))
        else:
            ledger.fail(key, "NaN")
    assert not ledger.given_up


def test_interrupted_trials_wait_and_are_started_again_first_with_their_checkpoints(make_ledger, tmp_path):
    ledger, study = make_ledger()
    first = ledger.start("a")
    checkpoint = tmp_path / "runs" / "s" / "trials" / "0000" / "checkpoint.pt"
    checkpoint.write_text("state")
    assert ledger.interrupt() == (0,)
    assert study.get_trials()[0].state == TrialState.WAITING
    again = ledger.start("b")
    assert again == first
    assert checkpoint.exists()


def test_a_fresh_trial_never_finds_a_foreign_checkpoint(make_ledger, tmp_path):
    foreign = tmp_path / "runs" / "s" / "trials" / "0000" / "checkpoint.pt"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("of an older study")
    ledger, _ = make_ledger()
    ledger.start("a")
    assert foreign.parent.exists()
    assert not foreign.exists()


def test_a_degenerate_trial_is_complete_infeasible_and_never_the_best(make_ledger, make_search, fakes):
    ledger, study = make_ledger(make_search(epochs=1))
    for key, value, reasons in (("a", -10.0, ("seed 0: 0 trades",)), ("b", -11.0 + 1.5, ())):
        ledger.start(key)
        ledger.record(key, (fakes.fake_report(value, 1, 1, reasons),))
    first, second = study.get_trials()
    assert (first.state, first.value) == (TrialState.COMPLETE, -10.0)
    assert first.constraints["degenerate"] > 0 >= second.constraints["degenerate"]
    assert [each.user_attrs["violation"] for each in (first, second)] == [1.0, -1.0]
    assert attributes.best_trial(study.get_trials()).number == 1


def test_node_and_gpu_of_a_trial_stand_in_columns_of_their_own(make_ledger):
    ledger, study = make_ledger()
    ledger.start("a")
    ledger.describe("a", attributes.Machine("node7", "NVIDIA H200 GPU-1", (("torch", "2.13"),)))
    (trial,) = study.get_trials()
    assert (trial.user_attrs["node"], trial.user_attrs["gpu"]) == ("node7", "NVIDIA H200 GPU-1")
    assert attributes.read_machine(trial).versions == (("torch", "2.13"),)


def test_an_illegal_combination_fails_its_trial_alone(make_ledger, make_search):
    space = SearchSpace("wide", (Choice("v_min", (7.0,)),))
    ledger, study = make_ledger(make_search(), space)
    assert ledger.start("a") is None
    assert study.get_trials()[0].state == TrialState.FAIL
    assert "v_min < v_max" in attributes.read_reason(study.get_trials()[0])


def test_an_interrupted_search_draws_the_same_parameters_as_an_uninterrupted_one(
    make_ledger, make_search, fakes
):
    def run(name, interrupt_at):
        ledger, study = make_ledger(make_search(epochs=1, trials=8, study=name, seed=3))
        for number in range(8):
            started = ledger.start(f"{number}")
            if number == interrupt_at:
                ledger.interrupt()
                started = ledger.start(f"{number}")
            value = -abs(started.config.agent.iql_expectile_tau - 0.7)
            ledger.record(f"{number}", (fakes.fake_report(value, 1, 1),))
        return [trial.params for trial in study.get_trials()]

    assert run("one", None) == run("two", 4)


def test_settled_checkpoints_are_dropped(make_ledger, make_search, tmp_path):
    ledger, _ = make_ledger(make_search())
    ledger.start("a")
    checkpoint = tmp_path / "runs" / "s" / "trials" / "0000" / "checkpoint.pt"
    checkpoint.write_text("state")
    ledger.fail("a", "NaN")
    ledger.drop_checkpoints()
    assert not checkpoint.exists()


def test_the_study_can_be_read_by_optuna_alone(make_ledger, fakes, tmp_path):
    ledger, _ = make_ledger()
    ledger.start("a")
    ledger.record("a", tuple(fakes.fake_report(0.1 * epoch, epoch, 3) for epoch in (1, 2, 3)))
    study = optuna.load_study(study_name="s", storage=f"sqlite:///{tmp_path}/runs/s/study.db")
    assert study.best_trial.number == 0


def test_no_more_than_the_last_settled_trial_keeps_its_checkpoint(make_ledger, tmp_path):
    ledger, _ = make_ledger()
    checkpoints = [tmp_path / "runs" / "s" / "trials" / f"{n:04d}" / "checkpoint.pt" for n in range(3)]
    for checkpoint in checkpoints:
        ledger.start("a")
        checkpoint.write_text("state")
        ledger.fail("a", "NaN")
    assert [checkpoint.exists() for checkpoint in checkpoints] == [False, False, True]


def test_an_obstacle_ends_the_search_and_fails_no_trial(make_ledger):
    ledger, study = make_ledger()
    ledger.start("a")
    ledger.failures.meet("disk full")
    ledger.failures.meet("something later")
    ledger.lose("a")
    assert ledger.given_up
    assert ledger.failures.obstacle == "disk full"
    assert ledger.interrupt() == (0,)
    assert study.get_trials()[0].state == TrialState.WAITING
