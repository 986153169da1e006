"""What is legal but rarely wise: said once, as a line, and never refused."""

from __future__ import annotations

from trainer.config import TrainerConfig
from trainer.reports import EpochReport

FASTEST_BASELINE = 0.2  # of 1 - gamma: above it the reward's baseline moves faster than values can follow
CLIPPED_SHARE = 0.2  # of the target mass outside the support


def configuration_advice(config: TrainerConfig) -> list[str]:
    """Warns of an adaptation rate of the differential Sharpe reward above (1 - gamma) / 5."""
    rate, gamma = config.environment.adaptation_rate, config.agent.gamma
    limit = FASTEST_BASELINE * (1 - gamma)
    if config.environment.reward != "dsr" or rate <= limit:
        return []
    return [
        f"warning: environment.adaptation_rate {rate:g} is above (1 - agent.gamma) / 5 = {limit:.4g}; "
        "lower it, or set environment.reward = 'return'"
    ]


def epoch_advice(report: EpochReport) -> list[str]:
    """Warns of targets that the support of the value distribution cuts off."""
    share = report.learning.clipped_target_share
    if share <= CLIPPED_SHARE:
        return []
    return [
        f"warning: {100 * share:.0f} % of the targets lie outside [agent.v_min, agent.v_max]; "
        "widen the support"
    ]
