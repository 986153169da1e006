"""market_begin: launches cuda/market_begin.cu."""

from __future__ import annotations

import numpy as np

from trainer.fused.market_lanes import EXACT_FLAGS, THREADS, LaneInputs, MarketLanes, state_defines
from trainer.kernels.loader import load
from trainer.replay import ReplayBuffer


def market_begin(inputs: LaneInputs, lanes: MarketLanes, replay: ReplayBuffer) -> None:
    """Starts a fresh episode in every lane; ``lanes.state`` then holds the first input rows.

    Args:
        inputs: Starts and goals are drawn with ``inputs.steps``.
        lanes: Overwritten but for ``action``.
        replay: The prefix of each lane's first transition is stored behind the write cursor.
    """
    tables, table = inputs.tables, inputs.tables.table
    defines = state_defines(inputs.layout, lanes.state.dtype, relative=tables.relative)
    load("market_begin", defines, flags=EXACT_FLAGS).launch(
        lanes.grid,
        THREADS,
        inputs.keys,
        inputs.steps,
        tables.train_start,
        tables.train_rows,
        inputs.goals,
        tables.sigma,
        table.features,
        table.center,
        table.inverse_scale,
        np.float32(table.limit),
        lanes.ledger,
        lanes.goal,
        lanes.row,
        lanes.position,
        lanes.episode_start,
        replay.rings.prefix,
        replay.written,
        lanes.state,
        np.int32(lanes.row.shape[1]),
        np.int32(inputs.length),
        np.int32(replay.capacity),
        inputs.root_length,
    )
