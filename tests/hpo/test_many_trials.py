"""Two hundred trials through the whole path: what they cost the driver, and what they leave."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from real_ray import REAL_RAY

pytestmark = [pytest.mark.slow, REAL_RAY]
TRIALS = 200
WARM_UP = 60


def test_two_hundred_trials_grow_neither_the_driver_nor_the_folder_beyond_what_is_kept(
    cluster, fakes, make_search
):
    import many_trials

    search = make_search(epochs=2, trials=TRIALS, concurrent=2)
    run = many_trials.search_many(search)
    assert run.outcome.complete == TRIALS
    assert len(run.memory_mib) == TRIALS
    assert many_trials.slope(run.memory_mib, WARM_UP) < many_trials.MOST_GROWTH_MIB
    folder = run.outcome.directory.path
    kept = Counter(path.name for path in folder.glob("trials/*/*"))
    kept.pop("epochs.log")  # of the stub
    assert kept == {"log.txt": TRIALS, "weights.pt": TRIALS}  # no checkpoint of a trial that has ended
    assert len(list(folder.glob("artifacts/*"))) == TRIALS  # the end of each log, for the dashboard
    rest = sorted(path.name for path in folder.iterdir() if not path.name.startswith("study.db"))
    assert rest == ["artifacts", "driver.lock", "search.json", "trials"]


def test_the_slope_is_that_of_the_trials_after_the_warm_up(fakes):
    import many_trials

    values = [1000.0, 500.0, *(10.0 + 0.25 * number for number in range(20))]
    assert many_trials.slope(values, 2) == pytest.approx(0.25)
    assert many_trials.slope(list(np.full(30, 7.0)), 5) == pytest.approx(0.0, abs=1e-9)
