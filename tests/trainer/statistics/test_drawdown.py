import numpy as np
import pytest

from trainer.statistics.drawdown import drawdowns, max_drawdown

MONTHLY = (
    ".003 .026 .011 -.01 .015 .025 .016 .067 -.014 .04 -.005 .081 "
    ".04 -.037 -.061 .017 -.049 -.022 .07 .058 -.065 .024 -.005 -.009"
)


def test_twenty_four_monthly_returns():
    assert max_drawdown([float(each) for each in MONTHLY.split()]) == pytest.approx(
        -0.144672955739, abs=5e-13
    )


def test_the_start_capital_counts_as_a_peak():
    np.testing.assert_allclose(drawdowns([-0.1, 0.05]), [0.0, -0.1, -0.055])
    assert max_drawdown([-0.1, 0.05]) == pytest.approx(-0.1)


def test_gains_only_have_no_drawdown_and_ruin_is_all():
    assert max_drawdown([0.1, 0.0, 0.2]) == 0.0
    assert max_drawdown([]) == 0.0
    assert max_drawdown([0.5, -1.0, 0.3]) == -1.0
