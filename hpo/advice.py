"""What is legal but rarely wise: said once, as a line, and never refused."""

from __future__ import annotations

from collections.abc import Iterator

from trainer.config import TrainerConfig
from trainer.reports import EpochReport

COSTS = ("environment.fee_bp", "environment.half_spread_bp", "environment.slippage_bp")
PERCENT = 100.0  # basis points
SMALLEST_COST = 0.01  # basis points; no market is as cheap, but a fee written as a fraction (0.001) looks so
LARGEST_COST = 1000.0  # basis points, a tenth of what is traded
FASTEST_BASELINE = 0.2  # of 1 - gamma: above it the reward's baseline moves faster than values can follow
CLIPPED_SHARE = 0.2  # of the target mass outside the support


def configuration_advice(config: TrainerConfig) -> list[str]:
    """Warns of costs that are no basis points, and of a reward's baseline faster than values can follow."""
    return [f"warning: {each}" for each in (*_odd_costs(config), *_fast_baseline(config))]


def _odd_costs(config: TrainerConfig) -> Iterator[str]:
    for key in COSTS:
        cost = config.get(key)
        if cost > 0 and not SMALLEST_COST <= cost <= LARGEST_COST:
            share = f"{cost / PERCENT:g} % of the traded value"
            yield f"{key} {cost:g} is {share}, because costs are basis points; {0.1 * PERCENT:g} are 0.1 %"


def _fast_baseline(config: TrainerConfig) -> Iterator[str]:
    rate, gamma = config.environment.adaptation_rate, config.agent.gamma
    limit = FASTEST_BASELINE * (1 - gamma)
    if config.environment.reward == "dsr" and rate > limit:
        yield (
            f"environment.adaptation_rate {rate:g} is above (1 - agent.gamma) / 5 = {limit:.4g}; "
            "lower it, or set environment.reward = 'return'"
        )


def epoch_advice(report: EpochReport) -> list[str]:
    """Warns of targets that the support of the value distribution cuts off."""
    share = report.learning.clipped_target_share
    if share <= CLIPPED_SHARE:
        return []
    return [
        f"warning: {100 * share:.0f} % of the targets lie outside [agent.v_min, agent.v_max]; "
        "widen the support"
    ]
