"""What searcher, scheduler and ledger promise, on every storage: SQLite, PostgreSQL and a journal file."""

from __future__ import annotations

import math

import optuna
import pytest
from fake_training import Silent
from optuna.trial import TrialState

from hpo.ledger import Decision, StudyLedger
from hpo.scheduler import StudyScheduler
from hpo.searcher import StudySearcher
from hpo.storage.mirrored_storage import mirrored
from hpo.storage.storages import open_storage
from hpo.study import attributes
from hpo.study.definition import StudyDefinition
from hpo.study.run_directory import RunDirectory
from hpo.study.shared_study import shared_study
from hpo.study.studies import create, finished, fork, open_existing, reconcile, running
from hpo.trial.trainable import ASSIGNMENT, OUTCOME, Outcome
from trainer.config import Float, SearchSpace
from trainer.errors import ConfigError

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
DATA = attributes.DataRecord("fake", "fake", "d", 252.0, 9, "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z")


class RayTrial:
    """What the scheduler reads of Ray's trial."""

    def __init__(self, key):
        self.trial_id = key
        self.max_failures = 2


class Driver:
    """A driver without Ray: opens the study anew, as after a crash, and hands messages to its parts."""

    def __init__(self, search, space, concurrent=2):
        directory = RunDirectory.of(search)
        storage = open_storage(directory.storage_url(search))
        loaded = optuna.load_study(storage=storage, study_name=search.study)
        self.mended = reconcile(loaded, storage).requeued
        shared = shared_study(loaded, storage)
        self.study, storage = mirrored(loaded, storage)
        self.ledger = StudyLedger(self.study, storage, search, space, DATA, directory, Silent(), shared)
        self.searcher = StudySearcher(self.ledger, search, directory, concurrent)
        self.scheduler = StudyScheduler(self.ledger)

    def ask(self, key):
        answer = self.searcher.suggest(key)
        return answer[ASSIGNMENT] if isinstance(answer, dict) else answer

    def tell(self, key, *reports, failure=None):
        trial = RayTrial(key)
        return self.scheduler.on_trial_result(None, trial, {OUTCOME: Outcome(reports, None, failure)})

    def trials(self):
        return self.study.get_trials()


@pytest.fixture(params=["sqlite", "postgres", "journal"])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres")
    return {"sqlite": None, "journal": f"journal:{tmp_path}/study.log"}[request.param]


@pytest.fixture
def make_study(url, make_search, space):
    def make(**keys):
        search = make_search(**{"storage": url, "stopping": {"pruner": "none"}, **keys})
        directory = RunDirectory.of(search)
        storage = open_storage(directory.storage_url(search))
        create(storage, search.study, StudyDefinition.of(search, space, "d" * 64), directory)
        return search

    return make


def test_trials_are_handed_out_in_order_up_to_the_concurrency_and_the_budget(make_study, space, fakes):
    driver = Driver(make_study(epochs=1, trials=3), space)
    assert [driver.ask("a").number, driver.ask("b").number, driver.ask("c")] == [0, 1, None]
    driver.tell("b", fakes.fake_report(0.5, 1, 1))
    assert driver.ask("c").number == 2
    driver.tell("a", fakes.fake_report(0.4, 1, 1))
    driver.tell("c", fakes.fake_report(0.3, 1, 1))
    assert driver.ask("d") == "FINISHED"
    assert [(each.state, each.value) for each in driver.trials()] == [
        (TrialState.COMPLETE, value) for value in (0.4, 0.5, 0.3)
    ]


def test_a_failure_is_stored_with_its_reason_and_is_not_retried(make_study, space):
    driver = Driver(make_study(), space)
    driver.ask("a")
    trial = RayTrial("a")
    driver.scheduler.on_trial_result(None, trial, {OUTCOME: Outcome(failure="TD error NaN at step 7")})
    assert trial.max_failures == 0
    (stored,) = driver.trials()
    assert (stored.state, stored.value) == (TrialState.FAIL, None)
    assert attributes.read_reason(stored) == "TD error NaN at step 7"


def test_a_score_that_is_nan_fails_its_trial_with_a_reason_and_the_search_goes_on(make_study, space, fakes):
    driver = Driver(make_study(epochs=1), space)
    driver.ask("a")
    driver.tell("a", fakes.fake_report(math.nan, 1, 1))
    (stored,) = driver.trials()
    assert stored.state == TrialState.FAIL
    assert attributes.read_reason(stored) == "the score of epoch 1 is nan"
    assert driver.ask("b").number == 1


def test_a_step_without_a_report_changes_nothing(make_study, space):
    driver = Driver(make_study(), space)
    driver.ask("a")
    assert driver.tell("a") == "CONTINUE"
    assert driver.trials()[0].state == TrialState.RUNNING


def test_a_trial_that_ray_ends_without_any_report_fails_and_the_search_goes_on(make_study, space):
    driver = Driver(make_study(), space)
    driver.ask("a")
    driver.searcher.on_trial_complete("a", None, error=True)
    assert driver.trials()[0].state == TrialState.FAIL
    assert driver.ask("b").number == 1


def test_a_stopped_trial_is_pruned_with_its_last_report_and_not_asked_again(make_study, space, fakes):
    stopping = {"pruner": "median", "startup_trials": 1}
    driver = Driver(make_study(epochs=4, stopping=stopping), space)
    driver.ask("a")
    for epoch in (1, 2, 3, 4):
        driver.tell("a", fakes.fake_report(1.0, epoch, 4))
    driver.ask("b")
    assert driver.tell("b", fakes.fake_report(-2.0, 1, 4)) == "CONTINUE"
    assert driver.tell("b", fakes.fake_report(-1.5, 2, 4)) == "STOP"
    assert driver.tell("b", fakes.fake_report(-1.0, 3, 4)) == "STOP"
    stored = driver.trials()[1]
    assert (stored.state, stored.value) == (TrialState.PRUNED, -1.5)
    assert stored.intermediate_values == {1: -2.0, 2: -1.5}


def test_what_a_dead_driver_left_running_is_continued_first_with_the_same_parameters(
    make_study, space, fakes
):
    search = make_study(epochs=2, trials=3)
    dead = Driver(search, space)
    first, second = dead.ask("a"), dead.ask("b")
    dead.tell("a", fakes.fake_report(0.3, 1, 2))
    resumed = Driver(search, space)
    assert resumed.mended == (0, 1)
    assert running(resumed.study) == ()
    again = [resumed.ask("c"), resumed.ask("d")]
    assert [(each.number, each.config) for each in again] == [
        (each.number, each.config) for each in (first, second)
    ]
    resumed.tell("c", fakes.fake_report(9.9, 1, 2), fakes.fake_report(0.4, 2, 2))
    assert resumed.trials()[0].intermediate_values == {1: 0.3, 2: 0.4}
    assert resumed.ask("e").number == 2


def test_an_interrupted_driver_leaves_nothing_running(make_study, space):
    driver = Driver(make_study(), space)
    driver.ask("a")
    driver.ask("b")
    assert driver.ledger.interrupt() == (0, 1)
    assert [trial.state for trial in driver.trials()] == [TrialState.WAITING] * 2


def run_to_the_end(search, space, fakes, crash_at=None):
    """Stub trials one at a time; report ``crash_at`` is stored, but the driver dies before deciding on it."""
    driver, events = Driver(search, space, 1), 0
    while (assignment := driver.ask("t")) != "FINISHED":
        number = assignment.number
        epoch = max(driver.trials()[number].intermediate_values, default=1)
        stopped = False
        while not stopped:
            value = math.sin(7.0 * number + 1.0) + 0.01 * epoch
            report = fakes.fake_report(value, epoch, 8)
            events += 1
            if events == crash_at:
                trial = driver.ledger._live["t"]
                attributes.write_epoch(trial, report.score, report.learning, report.seconds)
                trial.report(value, epoch)
                driver, stopped = Driver(search, space, 1), True
            else:
                stopped = driver.tell("t", report) == "STOP"
            epoch += 1
    return [(trial.state, trial.last_step) for trial in driver.trials()]


def test_decisions_after_a_crash_equal_those_of_an_uninterrupted_search(make_study, space, fakes):
    keys = {"epochs": 8, "trials": 10, "stopping": {"grace_epochs": 3}}
    whole = run_to_the_end(make_study(study="one", **keys), space, fakes)
    assert {state for state, _ in whole} == {TrialState.COMPLETE, TrialState.PRUNED}
    pruned = next(number for number, (state, _) in enumerate(whole) if state == TrialState.PRUNED)
    crash_at = sum(last for _, last in whole[: pruned + 1])  # the very epoch that stops it
    assert run_to_the_end(make_study(study="two", **keys), space, fakes, crash_at) == whole


def test_another_definition_is_refused_with_a_table_and_a_fork(make_study, url, make_search, space):
    search = make_study()
    directory = RunDirectory.of(search)
    storage = open_storage(directory.storage_url(search))
    narrow = SearchSpace("n", (Float("iql_expectile_tau", 0.6, 0.95), *space.parameters[1:]))
    costly = search.model_copy(update={"trainer": search.trainer.with_overrides({"fee_bp": 9.0})})
    for definition, row in (
        (StudyDefinition.of(search, narrow, "d" * 64), r"iql_expectile_tau +float \[0.5, 0.95\]"),
        (StudyDefinition.of(search, space, "e" * 64), r"data hash +dddddddddddd +eeeeeeeeeeee"),
        (StudyDefinition.of(costly, space, "d" * 64), r"environment.fee_bp +1.0 +9.0"),
    ):
        with pytest.raises(ConfigError, match=row) as refusal:
            create(storage, search.study, definition, directory)
        assert "--fork s" in str(refusal.value)
    optuna.delete_study(study_name="s", storage=storage)
    reverse = optuna.create_study(study_name="s", storage=storage, direction="minimize")
    reverse.set_user_attr("definition", StudyDefinition.of(search, space, "d" * 64).to_json())
    with pytest.raises(ConfigError, match=r"direction +minimize +maximize"):
        create(storage, "s", StudyDefinition.of(search, space, "d" * 64), directory)


def test_a_fork_takes_the_trials_over_and_does_not_count_them(make_study, space, fakes):
    search = make_study(epochs=1)
    driver = Driver(search, space)
    driver.ask("a")
    assert driver.ledger.record("a", (fakes.fake_report(0.5, 1, 1),)) is Decision.STOP
    new = make_study(epochs=1, study="t")
    opened = open_existing(RunDirectory.of(search).storage_url(search), "s")
    target = optuna.load_study(study_name="t", storage=open_storage(RunDirectory.of(new).storage_url(new)))
    assert fork(opened, target, StudyDefinition.of(new, space, "d" * 64)).copied == 1
    assert finished(target) == 0
    assert target.get_trials()[0].value == 0.5
