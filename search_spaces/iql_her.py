"""iql_her: the four parameters of implicit Q-learning and hindsight replay that decide most.

iql_expectile_tau          .5 is the mean (a plain value function); above .95 the expectile follows single
                           lucky returns. Kostrikov et al. 2021 use .7 to .9.
iql_advantage_temperature  1 hardly leaves the uniform policy, 30 is nearly greedy; its effect is a ratio,
                           hence the logarithmic range.
her_ratio                  a grid of .1, so that 0, no hindsight at all, is one of nine choices and not
                           an event of probability zero. Above .8 too few rows keep the market's reward.
her_strategy               Andrychowicz et al. 2017, section 4.5; only where something is relabelled.
"""

from __future__ import annotations

from trainer.config import Choice, Float, SearchSpace, When

SPACE = SearchSpace(
    name="iql_her",
    description="IQL expectile and temperature, HER ratio and strategy",
    parameters=(
        Float("iql_expectile_tau", low=0.5, high=0.95),
        Float("iql_advantage_temperature", low=1.0, high=30.0, log=True),
        Float("her_ratio", low=0.0, high=0.8, step=0.1),
        Choice(
            "her_strategy",
            values=("final", "future", "episode", "random"),
            when=When("her_ratio", above=0.0),
        ),
    ),
)
