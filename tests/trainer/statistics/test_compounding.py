import sys

import numpy as np
import pytest

from trainer.statistics.compounding import equity, total_return


def test_equity_compounds_from_one():
    np.testing.assert_allclose(equity([0.1, -0.5]), [1.0, 1.1, 0.55])


def test_the_total_return_compounds():
    assert total_return([0.1, -0.5]) == pytest.approx(-0.45)
    assert total_return([]) == 0.0


def test_ruin_is_final_whatever_the_gains_and_growth_stays_finite():
    assert total_return([1e300, 1e300, -1.0]) == -1.0
    assert total_return([1e300, 1e300]) == sys.float_info.max


def test_a_return_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="finite"):
        total_return([0.1, float("nan")])
