"""The answer to the known-answer market: the best Sharpe ratio that any policy of (x, position) reaches.

A myopic agent cannot find it, because trading costs make the position part of the state. The best
Sharpe ratio is attained by a policy that maximises E[R] - lambda/2 E[R^2] for some lambda; for each
lambda the policy comes from relative value iteration on a grid of x times the exposures.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Policy = NDArray[np.int64]

GRID_LIMIT = 4.0  # standard deviations of x
GRID_POINTS = 81
RISK_AVERSIONS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6)
TOLERANCE = 1e-7
MAX_SWEEPS = 5000


def best_policy(
    exposures: Floats, *, persistence: float, strength: float, cost: float, risk_aversion: float
) -> tuple[Floats, Policy]:
    """Solves the average-reward problem for x AR(1) with unit deviation and r = strength x + N(0, 1).

    Args:
        exposures: [A] positions to choose from.
        persistence: rho of the AR(1).
        strength: Mean of the next return per unit of x, in noise deviations.
        cost: Paid per unit of position change, in noise deviations.
        risk_aversion: lambda.

    Returns:
        The grid of x [G] and the best exposure index [G, A] for x and the exposure held.

    Raises:
        ArithmeticError: If the values do not settle.
    """
    grid = np.linspace(-GRID_LIMIT, GRID_LIMIT, GRID_POINTS)
    spread = np.sqrt(1 - persistence**2)
    density = np.exp(-0.5 * ((grid[None, :] - persistence * grid[:, None]) / spread) ** 2)
    transition = density / density.sum(axis=1, keepdims=True)  # [G, G]
    change = np.abs(exposures[None, :] - exposures[:, None])  # [held, chosen]
    mean = strength * grid[:, None, None] * exposures - cost * change  # [G, held, chosen]
    reward = mean - risk_aversion / 2 * (mean**2 + exposures**2)
    value = np.zeros((len(grid), len(exposures)))
    for _ in range(MAX_SWEEPS):
        updated = (reward + (transition @ value)[:, None, :]).max(axis=2)
        updated -= updated[len(grid) // 2, 0]
        change_of_value = np.abs(updated - value).max()
        value = updated
        if change_of_value < TOLERANCE:
            break
    else:
        raise ArithmeticError(
            f"values must settle within {TOLERANCE:g} in {MAX_SWEEPS} sweeps, but moved by "
            f"{change_of_value:g}"
        )
    return grid, (reward + (transition @ value)[:, None, :]).argmax(axis=2)


def walk(policy: Policy, grid: Floats, exposures: Floats, x: Floats, returns: Floats, cost: float) -> Floats:
    """Follows a policy from flat; the last bar also pays for closing the position.

    Args:
        policy: [G, A] exposure index.
        grid: [G].
        exposures: [A]; one of them is 0.
        x: [T] signal known before each return.
        returns: [T] return that follows x, in noise deviations.
        cost: Per unit of position change.

    Returns:
        [T] net returns in noise deviations.
    """
    nearest = np.clip(np.rint((x - grid[0]) / (grid[1] - grid[0])), 0, len(grid) - 1).astype(np.int64)
    held = int(np.abs(exposures).argmin())
    net = np.empty(len(returns))
    for t, cell in enumerate(nearest):
        chosen = int(policy[cell, held])
        net[t] = exposures[chosen] * returns[t] - cost * abs(exposures[chosen] - exposures[held])
        held = chosen
    net[-1] -= cost * abs(exposures[held])
    return net


def optimum(
    x: Floats,
    returns: Floats,
    exposures: Floats,
    *,
    persistence: float,
    strength: float,
    cost: float,
    periods_per_year: float,
) -> float:
    """Returns the best annualised Sharpe ratio (ddof 1) over RISK_AVERSIONS on the bars given.

    Args:
        x: [T] signal known before each return, of unit deviation.
        returns: [T] return that follows x, in noise deviations.
        exposures: [A]; one of them is 0.
        persistence: rho of the AR(1).
        strength: Mean of the next return per unit of x, in noise deviations.
        cost: Paid per unit of position change, in noise deviations.
        periods_per_year: Bars per year.
    """
    best = -np.inf
    for risk_aversion in RISK_AVERSIONS:
        grid, policy = best_policy(
            exposures, persistence=persistence, strength=strength, cost=cost, risk_aversion=risk_aversion
        )
        net = walk(policy, grid, exposures, x, returns, cost)
        best = max(best, float(net.mean() / net.std(ddof=1) * np.sqrt(periods_per_year)))
    return best
