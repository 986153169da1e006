from __future__ import annotations

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState

from hpo.pruning.paired_pruner import PairedPruner, probability_of_no_loss
from hpo.study.attributes import DEGENERATE, EPOCH_SHARPES

FOLDS = (2.0, -1.0, 0.5, 3.0, -2.0)  # the folds' own differences dwarf those of the trials
EPOCHS = 6


def moved(by, spread=(0.0, 0.02, -0.02, 0.01, -0.01)):
    return [fold + by + noise for fold, noise in zip(FOLDS, spread, strict=True)]


def add(study, sharpes, value=None, epochs=EPOCHS, stored=EPOCHS, **attributes):
    """Adds a trial with the same ``sharpes`` at every epoch; without a value it runs."""
    score = sum(sharpes) / len(sharpes)
    attributes[EPOCH_SHARPES] = {str(epoch): {"0": sharpes} for epoch in range(1, stored + 1)}
    study.add_trial(
        optuna.trial.create_trial(
            state=TrialState.RUNNING if value is None else TrialState.COMPLETE,
            value=value,
            intermediate_values={epoch: score for epoch in range(1, epochs + 1)},
            user_attrs=attributes,
        )
    )
    return study.get_trials()[-1]


@pytest.fixture
def study():
    return optuna.create_study(direction="maximize")


def stops(study, trial, grace_epochs=2):
    return PairedPruner(0.05, grace_epochs, EPOCHS).prune(study, trial)


def test_the_p_value_is_that_of_students_table():
    # mean -2, sd 1, n 3: t = -2 sqrt 3, and for 2 degrees of freedom P = (1 + t / sqrt(2 + t^2)) / 2
    assert probability_of_no_loss([-1.0, -2.0, -3.0]) == pytest.approx((1 - (12 / 14) ** 0.5) / 2, abs=1e-12)
    assert probability_of_no_loss([-1.0, 1.0]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("differences", "p"), [([], 1.0), ([-9.0], 1.0), ([0.0] * 4, 1.0), ([0.1] * 4, 1.0), ([-0.1] * 4, 0.0)]
)
def test_too_few_pairs_and_pairs_without_spread_have_a_plain_answer(differences, p):
    assert probability_of_no_loss(differences) == p


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12))
def test_better_and_worse_are_each_others_complement(differences):
    there, back = (probability_of_no_loss([sign * each for each in differences]) for sign in (1, -1))
    assert 0 <= there <= 1
    assert there + back == pytest.approx(2.0 if not any(differences) else 1.0, abs=1e-9)


def test_a_trial_that_is_worse_on_every_fold_is_stopped_although_the_folds_differ_more(study):
    add(study, moved(0.0, (0.0,) * 5), 0.5)
    assert stops(study, add(study, moved(-0.1), epochs=3))


@pytest.mark.parametrize("better", [0.0, 0.1])
def test_an_equal_or_better_trial_goes_on(study, better):
    add(study, list(FOLDS), 0.5)
    assert not stops(study, add(study, moved(better), epochs=3))
    assert not stops(study, add(study, [fold + better for fold in FOLDS], epochs=3))


def test_a_trial_that_is_worse_on_the_mean_of_few_folds_alone_goes_on(study):
    add(study, list(FOLDS), 0.5)
    assert not stops(study, add(study, moved(0.0, (-1.0, 0.1, 0.1, 0.1, 0.1)), epochs=3))


def test_the_incumbent_is_never_stopped_by_itself(study):
    incumbent = add(study, list(FOLDS), 0.5)
    assert not any(stops(study, at(incumbent, epoch)) for epoch in range(1, EPOCHS + 1))
    add(study, moved(-0.2), 0.3)
    assert not any(stops(study, at(incumbent, epoch)) for epoch in range(1, EPOCHS + 1))


def at(trial, epoch):
    trial.intermediate_values = {step: 0.0 for step in range(1, epoch + 1)}
    return trial


@pytest.mark.parametrize(("epoch", "stopped"), [(1, False), (2, False), (3, True), (5, True), (6, False)])
def test_no_trial_is_stopped_before_the_grace_epochs_or_at_its_last(study, epoch, stopped):
    add(study, list(FOLDS), 0.5)
    assert stops(study, add(study, moved(-1.0), epochs=epoch), grace_epochs=3) is stopped


def test_only_equal_epochs_are_compared(study):
    add(study, list(FOLDS), 0.5, stored=2)
    assert stops(study, add(study, moved(-1.0), epochs=2))
    assert not stops(study, add(study, moved(-1.0), epochs=3))


def test_neither_degenerate_nor_running_trials_are_the_incumbent(study):
    add(study, list(FOLDS), 9.0, **{DEGENERATE: ["seed 0: 0 trades"]})
    add(study, list(FOLDS))
    assert not stops(study, add(study, moved(-1.0), epochs=3))


def test_the_best_of_the_complete_trials_is_the_incumbent(study):
    add(study, moved(-2.0), 0.1)
    add(study, list(FOLDS), 0.9)
    add(study, moved(-3.0), 0.2)
    assert stops(study, add(study, moved(-0.1), epochs=3))


def test_seeds_are_pairs_of_their_own_and_unmatched_ones_are_left_out(study):
    complete = {"3": {"0": [1.0, 1.0], "1": [2.0, 2.0]}}
    running = {"3": {"0": [0.9, 0.8], "1": [1.9, 1.8], "2": [50.0, 50.0]}}
    for state, value, sharpes in (("COMPLETE", 1.0, complete), ("RUNNING", None, running)):
        study.add_trial(
            optuna.trial.create_trial(
                state=TrialState[state],
                value=value,
                intermediate_values={3: 0.0},
                user_attrs={EPOCH_SHARPES: sharpes},
            )
        )
    # differences -.1 -.2 -.1 -.2: t = -5.2 with 3 degrees of freedom
    assert stops(study, study.get_trials()[1])


def test_the_ledger_stores_what_the_pruner_reads_and_stops_by_it(make_search, space, fakes):
    from hpo.ledger import Decision, StudyLedger
    from hpo.progress.progress import LineDisplay, SearchProgress
    from hpo.progress.standing import Standing
    from hpo.storage.storages import open_storage
    from hpo.study.attributes import DataRecord, read_epoch_sharpes
    from hpo.study.definition import StudyDefinition
    from hpo.study.run_directory import RunDirectory
    from hpo.study.studies import create

    search = make_search(epochs=4, stopping={"pruner": "paired"})
    directory = RunDirectory.of(search)
    storage = open_storage(directory.storage_url(search))
    study = create(storage, search.study, StudyDefinition.of(search, space, "d"), directory)
    data = DataRecord("x", "x", "d", 252.0, 5, "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z")
    progress = SearchProgress("s", Standing(4), LineDisplay())
    ledger = StudyLedger(study, storage, search, space, data, directory, progress)
    for key, value in (("good", 1.0), ("equal", 1.0)):
        ledger.start(key)
        decided = [ledger.record(key, (fakes.fake_report(value, epoch, 4),)) for epoch in range(1, 5)]
        assert decided == [Decision.CONTINUE] * 3 + [Decision.STOP]
    ledger.start("bad")
    assert ledger.record("bad", (fakes.fake_report(0.9, 1, 4),)) is Decision.CONTINUE
    assert ledger.record("bad", (fakes.fake_report(0.9, 2, 4),)) is Decision.STOP
    states = [trial.state.name for trial in study.get_trials()]
    assert states == ["COMPLETE", "COMPLETE", "PRUNED"]
    assert read_epoch_sharpes(study.get_trials()[2], 2) == {(0, 0): 0.9, (0, 1): 0.9, (0, 2): 0.9}
