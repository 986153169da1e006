"""What a search costs beside its trainings: the arithmetic by literals, and a small search with Ray."""

from __future__ import annotations

import math

import pytest
from real_ray import REAL_RAY

from hpo.benchmarks.driver_overhead import DriverTimes, Plan, run, slot_loss, table
from hpo.ledger import StudyLedger

pytestmark = REAL_RAY
TIMES = DriverTimes(
    asks=[0.02, 0.04],
    reports=[0.001, 0.003],
    ends=[0.06, 0.076],
    clocks=[(100.0, 7.0), (104.0, 7.2), (110.0, 8.0)],
)
ENDS = {"17": [112.0, 101.0], "18": [102.0, 113.0, 123.5]}


def test_a_slot_loses_what_lies_between_two_ends_beyond_the_sleep():
    assert slot_loss(ENDS, 10.0) == (3, pytest.approx((11 + 11 + 10.5) / 30 - 1))


def test_without_a_second_trial_in_a_slot_the_loss_is_not_known():
    turns, loss = slot_loss({"17": [101.0]}, 10.0)
    assert turns == 0
    assert math.isnan(loss)


def test_the_table_gives_a_trial_its_share_of_the_drivers_time():
    assert table(Plan(slots=2, trials=5, epochs=4, epoch_seconds=2.5), TIMES, ENDS).splitlines() == [
        "| what | measured |",
        "| --- | --- |",
        "| slots, processes, trials | 2, 2, 5 |",
        "| sleep of a trial, s | 4 x 2.5 |",
        "| first question to last end, s | 10.0 |",
        "| ask, median / most, ms | 30.0 / 40 |",
        "| report, median / most, ms | 2.0 / 3 |",
        "| end of a trial, median / most, ms | 68.0 / 76 |",
        "| ask, reports and end of a trial, s | 0.040 |",
        "| the same, share of the wall time | 2.0% |",
        "| driver's CPU seconds a trial, Ray's threads included | 0.200 |",
        "| the same, share of the wall time | 10.0% |",
        "| slots' time beyond the sleep, 3 trials that followed another | 8.3% |",
    ]


def test_every_question_report_and_end_of_a_search_is_timed_and_the_ledger_is_left_as_it_was(
    cluster, tmp_path
):
    before = StudyLedger.start, StudyLedger.record
    times, ends = run(Plan(slots=2, trials=4, epochs=3, epoch_seconds=0.01), tmp_path, lambda line: None)
    assert (len(times.asks), len(times.reports), len(times.ends)) == (4, 8, 4)
    assert sum(map(len, ends.values())) == 4
    assert 0 < times.ledger < times.wall
    assert (StudyLedger.start, StudyLedger.record) == before
