import numpy as np

from hpo.report.wording import moment, number, percent, probability
from hpo.thinning import thinned


def test_thinning_keeps_ends_and_extremes():
    values = np.sin(np.arange(10_000) / 500)
    values[[1234, 8765]] = 9.0, -9.0
    kept = thinned(values, 200)
    assert kept.size <= 202
    assert {0, 1234, 8765, 9999} <= set(kept.tolist())
    assert (np.diff(kept) > 0).all()


def test_numbers_carry_a_true_minus_and_no_negative_zero():
    assert number(-1.234) == "\N{MINUS SIGN}1.23"
    assert number(-0.001) == "0.00"
    assert number(None) == "not defined"
    assert percent(0.0123) == "1.2 %"
    assert probability(1.0) == "&gt; 99.9 %"
    assert probability(0.9003968) == "90.0 %"


def test_a_time_is_shown_to_the_minute():
    assert moment("2017-04-19T09:30:59Z") == "2017-04-19 09:30"
