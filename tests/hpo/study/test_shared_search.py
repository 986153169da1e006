"""Whole searches with Ray on one study in PostgreSQL: two drivers, a dead one, a crashed server."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import optuna
import pytest
from optuna.trial import TrialState
from real_ray import REAL_RAY

from hpo.outcome import Ended
from hpo.storage.storages import open_storage
from hpo.study.attributes import DRIVER
from hpo.study.definition import StudyDefinition
from hpo.study.run_directory import RunDirectory
from hpo.study.studies import create
from hpo.tuner import tune

pytestmark = [pytest.mark.slow, REAL_RAY]
TRIALS = 8
EPOCHS = 3


@pytest.fixture
def two_searches(postgres, make_search, space, fakes, tmp_path):
    """One study without trials, to be resumed from two folders."""
    keys = {"epochs": EPOCHS, "trials": TRIALS, "storage": postgres, "stopping": {"pruner": "none"}}
    searches = [make_search(runs=str(tmp_path / name), **keys) for name in ("one", "two")]
    definition = StudyDefinition.of(searches[0], space, fakes.FakeMarket().data_hash)
    create(open_storage(postgres), "s", definition, RunDirectory.of(searches[0]))
    return searches


def trials_in(url):
    return optuna.load_study(study_name="s", storage=open_storage(url)).get_trials()


def require_whole(trials):
    """Exactly the trials asked for, COMPLETE with every epoch, and no two with the same parameters."""
    import killed_search as check

    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * TRIALS
    assert {len(trial.intermediate_values) for trial in trials} == {EPOCHS}
    check.require_each_once(trials)


def test_two_drivers_with_a_ray_each_share_the_budget_of_one_study(two_searches, driver, postgres):
    import killed_search as check

    processes = [driver("resume", search, "SharedByTwo") for search in two_searches]
    for process, search in zip(processes, two_searches, strict=True):
        assert process.wait(check.PATIENCE_SECONDS) == 0, check.output_file(search).read_text()
    trials = trials_in(postgres)
    require_whole(trials)
    assert len({trial.user_attrs[DRIVER] for trial in trials}) == 2
    one, two = map(check.epochs_run, two_searches)
    assert one.keys() | two.keys() == set(range(TRIALS))
    assert not one.keys() & two.keys()
    assert all(epochs == [1, 2, 3] for epochs in (*one.values(), *two.values()))


def test_a_driver_finishes_the_budget_of_one_that_was_killed_and_its_trial_too(
    two_searches, driver, postgres
):
    import killed_search as check

    survivor, victim = two_searches
    hang = RunDirectory.of(victim).path.with_name("hang")
    hang.parent.mkdir()
    hang.touch()
    processes = [driver("resume", search, "SharedByTwo") for search in (survivor, victim)]
    check.wait_until(lambda: [1, 2] in check.epochs_run(victim).values(), "a trial that hangs")
    (hanging,) = check.epochs_run(victim)
    check.kill(processes[1])
    assert processes[0].wait(check.PATIENCE_SECONDS) == 0, check.output_file(survivor).read_text()
    trials = trials_in(postgres)
    require_whole(trials)
    assert len({trial.user_attrs[DRIVER] for trial in trials}) == 1
    assert hanging in check.epochs_run(survivor)


def test_a_search_goes_on_when_its_server_has_crashed_and_comes_back(
    cluster, fakes, make_search, space, restartable, postgres, caplog
):
    import killed_search as check

    keys = {"epochs": EPOCHS, "trials": TRIALS, "storage": postgres, "stopping": {"pruner": "none"}}
    search = make_search(concurrent=2, **keys)

    def crash():
        check.wait_until(lambda: check.epochs_run(search).get(2) == [1, 2], "the second epoch of trial 2")
        restartable.stop("immediate")
        try:
            RunDirectory.of(search).path.with_name("down").touch()
            check.wait_until(lambda: "does not answer" in caplog.text, "a question to the server")
            time.sleep(2.0)  # how long it is away, at least; nothing is timed by it
        finally:
            restartable.start()

    with ThreadPoolExecutor(1) as pool:
        crashed = pool.submit(crash)
        outcome = tune(search, space, market=fakes.FakeMarket(), training="fake_training:ReportsIntoAnOutage")
        crashed.result()
    assert (outcome.ended, outcome.exit_code) == (Ended.FINISHED, 0)
    assert "answers again" in caplog.text
    require_whole(trials_in(postgres))
    assert check.epochs_run(search) == {number: [1, 2, 3] for number in range(TRIALS)}
