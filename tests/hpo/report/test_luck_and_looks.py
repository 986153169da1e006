import numpy as np
import pytest

from hpo.report.looks import fresh_seeds_line, looks, looks_line
from hpo.report.luck_chart import maximum_density
from hpo.report.records import StudyRecord
from hpo.study.study_records import HoldoutUse, Replication

FIRST = HoldoutUse("2026-03-01T10:00:00Z", 7, 30, ((0, 0.4), (1, 0.6)), 0.25, 0.7)
SECOND = HoldoutUse("2026-03-02T10:00:00Z", 9, 60, ((0, None),))


def record(tmp_path, holdout=(), replications=()):
    return StudyRecord("s", tmp_path, (), holdout, replications)


@pytest.mark.parametrize("trials", [1, 5, 200])
def test_the_density_of_the_noise_maximum_has_mass_one_and_the_mean_of_simulated_maxima(trials):
    grid = np.linspace(-8.0, 8.0, 20_001)
    density = maximum_density(grid, trials)
    step = grid[1] - grid[0]
    assert density.sum() * step == pytest.approx(1.0, abs=1e-6)
    simulated = np.random.default_rng(0).normal(size=(20_000, trials)).max(axis=1).mean()
    assert (density * grid).sum() * step == pytest.approx(simulated, abs=0.03)


def test_an_untouched_hold_out_is_said_to_be_untouched(tmp_path):
    assert "The hold-out is untouched" in looks(record(tmp_path))
    assert looks_line(record(tmp_path)) == ""


def test_one_look_is_told_with_mean_and_error_and_no_warning(tmp_path):
    study = record(tmp_path, (FIRST,))
    assert "0.50 \N{PLUS-MINUS SIGN} 0.25, mean of 2 seeds" in looks(study)
    assert "NOT UNTOUCHED" not in looks(study)
    assert "looked at" not in looks_line(study)


def test_the_hold_out_comes_with_buy_and_hold_on_the_same_bars(tmp_path):
    study = record(tmp_path, (FIRST, SECOND))
    assert "buy and hold had <b>0.70</b> on the same bars" in looks_line(study)
    assert 'data-name="Buy and hold">0.70</td>' in looks(study)
    assert 'data-name="Buy and hold">not on record</td>' in looks(study)  # of the second look
    assert "buy and hold" not in looks_line(record(tmp_path, (SECOND,)))


def test_a_second_look_is_called_one(tmp_path):
    study = record(tmp_path, (FIRST, SECOND))
    assert looks(study).count("NOT UNTOUCHED") == 1
    assert "looked at 2 times" in looks(study)
    assert "trial 7" in looks_line(study)
    assert "only the first look was at untouched bars" in looks_line(study)


def test_a_replication_shows_mean_and_spread_and_an_unfinished_one_says_so(tmp_path):
    done = Replication("2026-03-03T10:00:00Z", 7, 2, 3, (0.1, 0.3, 0.2))
    begun = Replication("2026-03-04T10:00:00Z", 7, 5, 10)
    html = looks(record(tmp_path, (), (done, begun)))
    assert "mean 0.20, standard deviation over seeds 0.10, from 0.10 to 0.30" in html
    assert "2 to 4" in html
    assert "not finished" in html


def test_the_verdict_tells_mean_and_spread_of_all_fresh_seeds_of_the_trial(tmp_path):
    first = Replication("2026-03-03T10:00:00Z", 7, 2, 3, (0.1, 0.3, 0.2))
    second = Replication("2026-03-04T10:00:00Z", 7, 5, 1, (-0.6,))
    other = Replication("2026-03-05T10:00:00Z", 8, 6, 2, (5.0, 7.0))
    line = fresh_seeds_line(record(tmp_path, (), (first, second, other)), 7)
    assert "on 4 seeds" in line
    assert "trial 7 has a Sharpe ratio of <b>0.00</b> on average" in line
    assert "(standard deviation over seeds 0.41)" in line  # sqrt((.01 + .09 + .04 + .36) / 3) = .4082


def test_the_verdict_is_silent_about_seeds_that_were_not_trained_to_the_end(tmp_path):
    begun = Replication("2026-03-04T10:00:00Z", 7, 5, 10)
    assert fresh_seeds_line(record(tmp_path, (), (begun,)), 7) == ""


def test_one_fresh_seed_has_no_spread(tmp_path):
    line = fresh_seeds_line(record(tmp_path, (), (Replication("2026-03-04", 7, 5, 1, (0.25,)),)), 7)
    assert "on 1 seed by" in line
    assert "<b>0.25</b> on average." in line
