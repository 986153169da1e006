import numpy as np
import pytest
from scipy.stats import ttest_ind

from trainer.statistics.seed_difference import seed_difference


def test_the_error_pools_both_groups_and_counts_the_seeds_of_both_means():
    """Squares about the means: .02 and .08 make s^2 = .1 / 3; the error is sqrt(.1 / 3 (1 / 2 + 1 / 3))."""
    found = seed_difference([0.4, 0.6], [-0.2, 0.2, 0.0])
    assert found.difference == pytest.approx(0.5)
    assert found.error == pytest.approx(0.1666667, abs=1e-7)
    assert found.freedom == 3
    assert found.statistic == pytest.approx(3.0)
    assert found.probability == pytest.approx(0.0576689, abs=1e-7)  # Student's t, 3 degrees of freedom


def test_one_seed_takes_the_spread_of_the_others():
    """.5 against -.1, .1: s^2 = .02 with 1 degree of freedom, the error sqrt(.02 (1 + 1 / 2))."""
    found = seed_difference([0.5], [-0.1, 0.1])
    assert (found.error, found.freedom) == (pytest.approx(0.1732051, abs=1e-7), 1)


def test_it_is_the_two_sample_t_of_scipy():
    draws = np.random.default_rng(3)
    first, second = draws.normal(0.3, 0.5, 4), draws.normal(0.0, 0.5, 10)
    found, known = seed_difference(first, second), ttest_ind(first, second)
    assert found.statistic == pytest.approx(known.statistic, rel=1e-12)
    assert found.probability == pytest.approx(known.pvalue, rel=1e-9)


@pytest.mark.parametrize(("own", "fresh"), [(1, 10), (2, 5), (3, 10)])
def test_seeds_that_are_alike_are_told_apart_at_the_rate_that_is_promised(own, fresh):
    draws = np.random.default_rng(own).normal(0.2, 0.4, (4000, own + fresh))
    found = [seed_difference(each[:own], each[own:]).probability for each in draws]
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.011)  # three standard errors


def test_without_spread_nothing_is_measured():
    assert seed_difference([0.5], [0.1]) is None
    assert seed_difference([0.25, 0.25], [0.25]) is None
    with pytest.raises(ValueError, match=r"need a value, but got \[0, 2\]"):
        seed_difference([], [0.1, 0.2])
