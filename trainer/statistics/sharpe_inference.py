"""Standard error of a Sharpe ratio and its time aggregation under serial correlation (Lo 2002)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from trainer.statistics.sharpe import checked_returns, has_spread, sharpe


def sharpe_standard_error(ratio: float, observations: int) -> float:
    """Standard error of a per-observation Sharpe ratio of iid returns.

    se(SR) = sqrt((1 + SR^2 / 2) / T).

    Args:
        ratio: SR per observation.
        observations: T >= 1.

    Raises:
        ValueError: For ``observations < 1``.

    References:
        Lo (2002), The statistics of Sharpe ratios, Financial Analysts Journal 58(4), equation 9.
    """
    if observations < 1:
        raise ValueError(f"`observations >= 1` must hold, but got ({observations=})")
    return math.sqrt((1.0 + ratio * ratio / 2.0) / observations)


def annualised_standard_error(annual_ratio: float, observations: int, periods_per_year: float) -> float:
    """Standard error of an annualised Sharpe ratio, in the same annual units.

    sqrt(q) se(SR_a / sqrt(q)) = sqrt((1 + SR_a^2 / (2 q)) / years), years = T / q. The annual ratio must
    not stand in the per-observation formula: with T in years it would count SR_a^2 / 2 q times.

    Args:
        annual_ratio: SR_a, annualised.
        observations: T bars.
        periods_per_year: q, bars per year.
    """
    root = math.sqrt(periods_per_year)
    return root * sharpe_standard_error(annual_ratio / root, observations)


def autocorrelations(returns: npt.ArrayLike, lags: int) -> npt.NDArray[np.float64]:
    """Sample autocorrelations rho_1 .. rho_lags of ``returns`` [T], divisor T at every lag; [lags].

    Raises:
        ValueError: For returns without spread, or lags outside [0, T - 1].
    """
    values = checked_returns(returns)
    if not 0 <= lags < max(values.size, 1):
        raise ValueError(f"`0 <= lags < T` must hold, but got ({lags=}, T={values.size})")
    if not has_spread(values):
        raise ValueError("autocorrelation is not defined for returns without spread")
    centred = values - values.mean()
    total = float(centred @ centred)
    products = [float(centred[lag:] @ centred[:-lag]) / total for lag in range(1, lags + 1)]
    return np.asarray(products, dtype=np.float64)


def eta(correlations: npt.ArrayLike, periods: int) -> float:
    """Factor that takes a one-period Sharpe ratio to that of q = ``periods`` periods.

    SR(q) = eta(q) SR, with eta(q) = q / sqrt(q + 2 sum_{k=1}^{q-1} (q - k) rho_k),
    which is sqrt(q) where all rho are 0.

    Args:
        correlations: [n] rho_1, rho_2, ...; lags beyond n count 0 and lags beyond q - 1 are unused.
        periods: q >= 1.

    Raises:
        ValueError: For ``periods < 1``, or correlations that make the variance of the sum not positive.

    References:
        Lo (2002), equation 20.
    """
    if periods < 1:
        raise ValueError(f"`periods >= 1` must hold, but got ({periods=})")
    rho = np.asarray(correlations, dtype=np.float64)[: periods - 1]
    weights = periods - np.arange(1, rho.size + 1)
    variance_ratio = periods + 2.0 * float(weights @ rho)
    if not variance_ratio > 0:
        raise ValueError(f"`q + 2 sum (q - k) rho_k > 0` must hold, but got {variance_ratio}")
    return periods / math.sqrt(variance_ratio)


def serial_sharpe(returns: npt.ArrayLike, periods_per_year: float) -> float | None:
    """Annualised Sharpe ratio with eta(q) in place of the square root, q the whole periods of a year.

    As many autocorrelations enter as Newey and West's rule keeps, int(4 (T / 100)^(2/9)).

    Args:
        returns: [T] simple returns per observation.
        periods_per_year: Observations per year.

    Returns:
        The ratio, or None for returns without spread, or where few noisy lags imply a negative variance of
        the yearly return.
    """
    values = checked_returns(returns)
    ratio = sharpe(values)
    if ratio is None:
        return None
    periods = max(round(periods_per_year), 1)
    lags = min(periods - 1, values.size - 1, int(4 * (values.size / 100) ** (2 / 9)))
    rho = autocorrelations(values, lags)
    variance_ratio = periods + 2.0 * float((periods - np.arange(1, lags + 1)) @ rho)
    return None if variance_ratio <= 0 else ratio * eta(rho, periods)
