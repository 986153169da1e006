"""Minimum backtest length: below it, trying N worthless configurations shows a given Sharpe ratio by luck."""

from __future__ import annotations

from trainer.statistics.deflated_sharpe import expected_maximum


def minimum_backtest_length(trials: float, annual_ratio: float = 1.0) -> float:
    """MinBTL = (emax(N) / SR_a)^2 years.

    With fewer years of data, the expected best annualised Sharpe ratio of N independent trials whose
    true ratio is 0 exceeds ``annual_ratio``.

    Args:
        trials: N >= 1.
        annual_ratio: SR_a > 0, the annualised ratio that luck should not reach.

    Returns:
        Years; 0 for N = 1. Never above the closed bound 2 ln N / SR_a^2.

    Raises:
        ValueError: For ``annual_ratio <= 0`` or ``trials < 1``.

    References:
        Bailey, Borwein, Lopez de Prado and Zhu (2014), Pseudo-mathematics and financial charlatanism,
        Notices of the AMS 61(5), theorem 2.
    """
    if not annual_ratio > 0:
        raise ValueError(f"`annual_ratio > 0` must hold, but got ({annual_ratio=})")
    return (expected_maximum(trials) / annual_ratio) ** 2
