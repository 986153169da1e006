from __future__ import annotations

from datetime import datetime, timedelta

from optuna.trial import FrozenTrial, TrialState, create_trial

from hpo.progress.search_rates import Gap, search_rates

BEGIN = datetime(2024, 5, 1, 12, 0, 0)
COMPLETE, FAIL = TrialState.COMPLETE, TrialState.FAIL


def trial(number, gpu, start, first_epoch, stop, warm=False, state=COMPLETE, **attributes) -> FrozenTrial:
    """Times in seconds from BEGIN."""
    at = (BEGIN + timedelta(seconds=first_epoch)).timestamp()
    machine = {"host": "node", "gpu": gpu, "versions": {}}
    setup = {"setup_seconds": first_epoch - start, "warm": warm, "first_epoch_at": at, "machine": machine}
    made = create_trial(state=state, value=1.0 if state == COMPLETE else None, user_attrs=setup | attributes)
    made.number = number
    made.datetime_start = BEGIN + timedelta(seconds=start)
    made.datetime_complete = BEGIN + timedelta(seconds=stop)
    return made


TWO_GPUS = [
    trial(0, "H200 GPU-a", 0, 10, 30),
    trial(1, "H200 GPU-b", 0, 12, 40),
    trial(2, "H200 GPU-a", 30, 30.25, 50, warm=True),
    trial(3, "H200 GPU-b", 40, 40.75, 70, warm=True, state=FAIL),
    trial(4, "H200 GPU-a", 50, 58, 72),
]


def test_a_gap_lies_between_two_trials_of_one_gpu():
    rates = search_rates(TWO_GPUS)
    assert rates.gaps == (
        Gap("node H200 GPU-a", 2, 0.25, True),
        Gap("node H200 GPU-b", 3, 0.75, True),
        Gap("node H200 GPU-a", 4, 8.0, False),
    )
    assert rates.median_gap(warm=True) == 0.5
    assert rates.median_gap(warm=False) == 8.0


def test_five_trials_in_seventy_two_seconds_are_250_an_hour():
    rates = search_rates(TWO_GPUS)
    assert (rates.trials, rates.seconds, rates.timed) == (5, 72.0, 5)
    assert rates.trials_per_hour == 250.0
    assert rates.line == (
        "5 trials, 250 an hour, 0.50 s between two trials of a device (warm start, median), "
        "8.00 s between two trials of a device (cold start, median)"
    )


def test_the_night_between_an_interruption_and_its_resumption_counts_in_no_rate():
    night = 10 * 3600
    rates = search_rates([trial(0, "none", 0, 1, 20), trial(1, "none", night, night + 1, night + 20)])
    assert rates.seconds == 40.0
    assert rates.trials_per_hour == 180.0


def test_on_a_device_with_several_slots_a_trial_follows_the_one_that_ended_last_before_it():
    rates = search_rates(
        [
            trial(0, "none", 0, 1, 10),
            trial(1, "none", 0, 1, 20),
            trial(2, "none", 10, 12, 30),
            trial(3, "none", 20, 21, 40),
            trial(4, "none", 30, 33, 50),
        ]
    )
    assert [(gap.number, gap.seconds) for gap in rates.gaps] == [(2, 2.0), (3, 1.0), (4, 3.0)]


def test_copied_running_and_unmeasured_trials_count_in_nothing():
    copied = trial(0, "none", 0, 1, 10, forked_from="other:3")
    running = trial(1, "none", 0, 1, 10, state=TrialState.RUNNING)
    bare = trial(2, "none", 100, 101, 110)
    bare.user_attrs = {}
    rates = search_rates([copied, running, bare])
    assert (rates.trials, rates.seconds, rates.gaps, rates.timed) == (1, 10.0, (), 0)
    assert rates.line == "1 trial, 360 an hour"


def test_a_study_without_trials_has_no_rates():
    rates = search_rates([])
    assert (rates.trials_per_hour, rates.gaps, rates.timed) == (None, (), 0)
    assert rates.line == "0 trials"
