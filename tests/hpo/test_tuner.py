from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import optuna
import psutil
import pytest
from optuna.trial import TrialState
from ray import cloudpickle
from real_ray import REAL_RAY

from hpo.commands.search_flow import next_commands
from hpo.outcome import Ended
from hpo.study import attributes
from hpo.tuner import resume, saved_search, tune
from trainer.data.market import load_market
from trainer.errors import ConfigError, LeakError

pytestmark = REAL_RAY


def trials_of(outcome):
    return optuna.load_study(study_name=outcome.study, storage=outcome.storage).get_trials()


def epochs_run(outcome, number):
    return [int(line) for line in (outcome.directory.trial(number) / "epochs.log").read_text().split()]


@pytest.fixture
def search_with(cluster, fakes, make_search, space):
    def run(training, say=lambda line: None, **keys):
        market = fakes.FakeMarket()
        return tune(make_search(**keys), space, market=market, training=f"fake_training:{training}", say=say)

    return run


def test_the_processes_of_all_slots_start_side_by_side(search_with):
    first, *others = trials_of(search_with("FakeTraining", epochs=2, trials=4, concurrent=3))[:3]
    asked = [trial.datetime_start.timestamp() for trial in others]
    assert max(asked) < first.user_attrs[attributes.FIRST_EPOCH_AT]


def test_a_search_ends_with_every_trial_settled_and_the_best_one_named(search_with, make_search):
    outcome = search_with("FakeTraining", epochs=4, trials=6, concurrent=2)
    trials = trials_of(outcome)
    assert (outcome.ended, outcome.exit_code) == (Ended.FINISHED, 0)
    assert {trial.state for trial in trials} <= {TrialState.COMPLETE, TrialState.PRUNED}
    assert len(trials) == 6
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    assert all(list(trial.intermediate_values) == [1, 2, 3, 4] for trial in complete)
    assert all(len(trial.intermediate_values) >= 2 for trial in trials)
    assert outcome.best.value == max(trial.value for trial in complete)
    assert outcome.best.standard_error == 0.5
    assert attributes.read_machine(trials[0]).gpu == "none"
    assert not outcome.directory.scratch.exists()
    assert saved_search(make_search().runs, "s").trials == 6


def test_each_trial_has_its_own_log_and_keeps_weights_but_no_checkpoint(search_with):
    outcome = search_with("FakeTraining", epochs=2, trials=2, stopping={"pruner": "none"})
    for number in (0, 1):
        folder = outcome.directory.trial(number)
        log = (folder / "log.txt").read_text()
        assert re.findall(r"printed in epoch (\d)", log) == ["1", "2"]
        assert "GPUs ''\n" in log
        assert f"trial {number}: " in log
        assert f"trial {1 - number}: " not in log
        assert (folder / "weights.pt").exists()
        assert not (folder / "checkpoint.pt").exists()


def test_a_search_of_nan_trials_stops_names_the_reason_and_fails(search_with):
    outcome = search_with("NanTraining", trials=6, concurrent=2, max_consecutive_bad=3)
    assert (outcome.ended, outcome.exit_code) == (Ended.TOO_MANY_FAILURES, 1)
    assert "TD error NaN at step 11, member 2" in outcome.message
    trials = trials_of(outcome)
    assert TrialState.RUNNING not in {trial.state for trial in trials}
    failed = [trial for trial in trials if trial.state == TrialState.FAIL]
    assert len(failed) == 3
    assert all(attributes.read_reason(trial) and trial.params for trial in failed)


def test_failing_trials_do_not_stop_the_others(search_with):
    outcome = search_with("OddFailing", epochs=2, trials=4, stopping={"pruner": "none"})
    states = [trial.state.name for trial in trials_of(outcome)]
    assert states == ["COMPLETE", "FAIL", "COMPLETE", "FAIL"]
    assert outcome.exit_code == 0


def test_a_killed_process_is_retried_from_its_checkpoint_and_counts_once(search_with):
    outcome = search_with("KilledOnce", epochs=4, trials=2, concurrent=2, stopping={"pruner": "none"})
    trials = trials_of(outcome)
    assert [trial.state.name for trial in trials] == ["COMPLETE", "COMPLETE"]
    assert list(trials[0].intermediate_values) == [1, 2, 3, 4]
    assert epochs_run(outcome, 0) == [1, 2, 3, 3, 4]


def test_a_process_that_always_dies_fails_its_trial_as_killed(search_with):
    outcome = search_with("AlwaysKilled", epochs=1, trials=2, max_failures=1)
    first, second = trials_of(outcome)
    assert (first.state.name, second.state.name) == ("FAIL", "COMPLETE")
    assert attributes.read_reason(first).startswith("killed")
    assert epochs_run(outcome, 0) == [1, 1]


def test_a_trial_that_hangs_fails_as_timeout_its_process_is_gone_and_the_search_goes_on(search_with):
    outcome = search_with("Hanging", epochs=2, trials=2, max_failures=1, resources={"gpu": 0, "timeout": 4.0})
    first, second = trials_of(outcome)
    assert (first.state.name, second.state.name) == ("FAIL", "COMPLETE")
    assert attributes.read_reason(first).startswith("timeout: no report for 4 s")
    (process,) = (outcome.directory.trial(0) / "processes").read_text().split()
    assert not psutil.pid_exists(int(process))
    assert "trouble" in (outcome.directory.trial(0) / "hang.txt").read_text()
    assert not (outcome.directory.trial(1) / "hang.txt").exists()


def test_a_trial_without_memory_fails_as_oom_and_the_next_one_has_a_fresh_process(search_with):
    outcome = search_with("OutOfMemory", epochs=1, trials=4, max_failures=2)
    trials = trials_of(outcome)
    assert [trial.state.name for trial in trials] == ["FAIL", "FAIL", "COMPLETE", "COMPLETE"]
    assert [attributes.read_reason(trial) for trial in trials[:2]] == [
        "oom: the plan needs 9000 MiB, but 4000 MiB are free; lower batch_size",
        "oom: CUDA out of memory. Tried to allocate 2 GiB",
    ]
    assert [epochs_run(outcome, number) for number in range(4)] == [[1]] * 4  # none is tried again
    processes = [(outcome.directory.trial(number) / "process").read_text() for number in range(4)]
    assert len(set(processes[:3])) == 3
    assert processes[2] == processes[3]


def test_a_time_budget_leaves_waiting_trials_that_resume_continues(search_with, fakes, make_search):
    keys = {"epochs": 12, "trials": 2, "concurrent": 2, "stopping": {"pruner": "none"}}
    said: list[str] = []
    outcome = search_with("SlowTraining", said.append, time_budget=3.0, **keys)
    assert "time budget 3 s" in said
    assert (outcome.ended, outcome.exit_code) == (Ended.TIME_BUDGET, 0)
    assert "foxtune resume s" in outcome.message
    before = trials_of(outcome)
    assert {trial.state for trial in before} <= {TrialState.WAITING}
    again = resume(make_search(**keys), market=fakes.FakeMarket(), training="fake_training:FakeTraining")
    after = trials_of(again)
    assert [trial.state.name for trial in after] == ["COMPLETE", "COMPLETE"]
    assert [trial.params for trial in after][: len(before)] == [trial.params for trial in before]
    assert list(after[0].intermediate_values) == list(range(1, 13))
    assert len(epochs_run(again, 0)) <= 13


def test_resuming_a_finished_study_does_nothing_and_says_so(search_with, fakes, make_search):
    search_with("FakeTraining", epochs=1, trials=1)
    outcome = resume(make_search(epochs=1, trials=1), market=fakes.FakeMarket(), training="no.such:thing")
    assert (outcome.ended, outcome.exit_code) == (Ended.NOTHING_TO_DO, 0)
    assert "nothing to do" in outcome.message
    more = resume(
        make_search(epochs=1, trials=2), market=fakes.FakeMarket(), training="fake_training:FakeTraining"
    )
    assert more.complete == 2


def test_one_trial_at_a_time_is_repeatable(search_with):
    first, second = (
        search_with("FakeTraining", study=name, epochs=2, trials=5, seed=11) for name in ("one", "two")
    )
    assert [(trial.params, trial.value) for trial in trials_of(first)] == [
        (trial.params, trial.value) for trial in trials_of(second)
    ]


def test_resuming_with_another_space_is_refused_with_a_table(make_search, space, fakes, search_with):
    search_with("FakeTraining", epochs=1, trials=1)
    narrow = type(space)("narrow", space.parameters[:1])
    with pytest.raises(ConfigError, match=r"her_strategy +.*not searched"):
        resume(make_search(epochs=1, trials=2), narrow, market=fakes.FakeMarket())


def test_a_node_without_the_folder_is_found(cluster, tmp_path):
    import ray

    from hpo.cluster.ray_cluster import nodes_without

    nodes = (("here", ray.nodes()[0]["NodeID"]),)
    assert nodes_without(nodes, tmp_path) == ()
    assert nodes_without(nodes, tmp_path / "nothing") == ("here",)


def test_only_the_scratch_of_dead_drivers_is_removed(tmp_path):
    from hpo.cluster.ray_cluster import remove_stale_scratch

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = (f"foxtune-{dead.pid}-a", f"foxtune-{os.getpid()}-b", "foxtune-notes", "other")
    for name in names:
        (tmp_path / name).mkdir()
    remove_stale_scratch(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


def test_a_large_market_travels_through_the_object_store(cluster, make_search, fakes):
    from hpo.cluster.submission import build_trainable, size_in_bytes

    market = fakes.FakeMarket(array=np.zeros(20_000_000))
    assert size_in_bytes(market) > 160_000_000
    trainable = build_trainable(make_search(), market, "fake_training:FakeTraining")
    assert len(cloudpickle.dumps(trainable)) < 1_000_000


class Inner:
    def __init__(self):
        self.lock = threading.Lock()


class PlugIn:
    def __init__(self):
        self.inner = Inner()

    def __call__(self, config, market, directory, *, resume):
        raise AssertionError


def test_a_plug_in_that_cannot_be_pickled_is_refused_naming_the_attribute(make_search, space, fakes):
    with pytest.raises(ConfigError, match="lock cannot be pickled") as refusal:
        tune(make_search(), space, market=fakes.FakeMarket(), training=PlugIn())
    assert refusal.value.key == "training.inner.lock"


def test_a_market_of_the_callers_own_with_a_column_that_knows_the_next_bar_is_refused(make_search, space):
    usual = load_market(make_search().trainer)
    coming = np.append(np.diff(usual.bars.close) / usual.bars.close[:-1], 0.0)
    columns = np.concatenate([usual.features, -3 * coming[:, None]], axis=1).astype(np.float32)
    market = replace(usual, features=columns, feature_names=(*usual.feature_names, "mood"))
    with pytest.raises(LeakError, match=r"'mood' has -1\.00 with the return 1 bar"):
        tune(make_search(), space, market=market)


def test_missing_gpus_are_refused_before_anything_is_made(make_search, space, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ConfigError, match="0 GPUs visible"):
        tune(make_search(resources={"gpu": 1}), space)
    assert not (tmp_path / "runs").exists()


def test_after_a_fork_the_suggested_number_asks_for_the_studys_own_trials_alone(
    search_with, fakes, make_search, space
):
    keys = {"epochs": 1, "stopping": {"pruner": "none"}}
    search_with("FakeTraining", study="old", trials=3, **keys)
    market, training = fakes.FakeMarket(), "fake_training:FakeTraining"
    forked = tune(
        make_search(study="new", trials=2, **keys), space, fork_from="old", market=market, training=training
    )
    assert (forked.complete, forked.copied) == (5, 3)
    assert re.findall(r"resume new .*--trials (\d+)", next_commands(forked)) == ["4"]
    resumed = resume(make_search(study="new", trials=4, **keys), market=market, training=training)
    assert (resumed.complete, resumed.copied) == (7, 3)


def test_what_ray_tells_of_a_dead_worker_is_not_printed(cluster, capsys):
    from ray._private.worker import print_to_stdstream

    print_to_stdstream({"lines": ["A worker died"], "pid": "raylet", "is_err": False}, ignore_prefix=False)
    assert capsys.readouterr().out == ""


def test_a_search_touches_no_gpu_in_the_drivers_process(search_with, monkeypatch):
    def touch():
        raise AssertionError("the driver made a CUDA context")

    monkeypatch.setattr("torch.cuda._lazy_init", touch)
    monkeypatch.setattr("torch.cuda.init", touch)
    monkeypatch.setattr("torch._C._cuda_getDeviceCount", touch, raising=False)  # it makes one in old drivers
    outcome = search_with("FakeTraining", epochs=1, trials=1)
    assert outcome.complete == 1
