"""full: iql_her and what else a training's result depends on. Ask for some hundred trials.

learning_rate    a decade on either side of the default 3e-4; Adam's useful range for widths of 128 to 512.
gamma            horizon 1 / (1 - gamma) of 5 to 100 bars: beyond an episode of 128 bars nothing is learned.
batch_size       powers of two, since each distinct size is another stack of buffers.
adaptation_rate  eta of the differential Sharpe ratio; above .01 the reward gets worse than the plain
                 return, and above (1 - gamma) / 5 its baseline moves faster than the value function sees.
per_alpha        0 is uniform replay, 1 is fully proportional (Schaul et al. 2016).
per_beta         the importance exponent at the start; it always ends at 1.
trunk_widths     narrow, the default, wide; two layers each.
max_norm         the clipping threshold; the default 10 rarely binds, 1 often does.
"""

from __future__ import annotations

from search_spaces.iql_her import SPACE as IQL_HER
from trainer.config import Choice, Float, SearchSpace

SPACE = SearchSpace(
    name="full",
    description="iql_her plus learning rate, gamma, batch, adaptation rate, PER, width, clipping",
    parameters=(
        *IQL_HER.parameters,
        Float("learning_rate", low=3e-5, high=3e-3, log=True),
        Float("gamma", low=0.8, high=0.99),
        Choice("batch_size", values=(64, 128, 256, 512)),
        Float("adaptation_rate", low=0.0005, high=0.02, log=True),
        Float("per_alpha", low=0.0, high=1.0, step=0.1),
        Float("per_beta", low=0.2, high=1.0, step=0.1),
        Choice("trunk_widths", values=("128x128", "256x256", "512x512")),
        Float("max_norm", low=1.0, high=30.0, log=True),
    ),
)
