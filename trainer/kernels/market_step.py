"""market_step: launches cuda/market_step.cu."""

from __future__ import annotations

import numpy as np

from trainer.fused.market_lanes import EXACT_FLAGS, THREADS, LaneInputs, MarketLanes, step_defines
from trainer.kernels.loader import load
from trainer.replay import ReplayBuffer


def market_step(inputs: LaneInputs, lanes: MarketLanes, replay: ReplayBuffer) -> None:
    """Trades one bar in every lane that does not rest, and stores the transition but for its episode's end.

    Args:
        inputs: Bars, costs and what a restart draws from.
        lanes: ``action`` is carried out; the rest is moved on by one bar.
        replay: Written behind the write cursor, which stays where it is until the collection is closed.
    """
    tables, table, hyper, rings = inputs.tables, inputs.tables.table, inputs.hyper, replay.rings
    bars = tables.bars
    defines = step_defines(inputs.layout, lanes.state.dtype, tables)
    load("market_step", defines, flags=EXACT_FLAGS).launch(
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
        hyper.maker_cost,
        hyper.taker_cost,
        hyper.impact,
        hyper.adaptation_rate,
        hyper.reward_is_return,
        bars.moves,
        bars.moves if bars.notional is None else bars.notional,
        inputs.exposures,
        lanes.action,
        lanes.ledger,
        lanes.goal,
        lanes.row,
        lanes.position,
        lanes.episode_start,
        rings.prefix,
        rings.next_prefix,
        rings.row,
        rings.action,
        rings.reward,
        rings.terminated,
        rings.truncated,
        rings.episode_start,
        replay.written,
        lanes.state,
        np.int32(lanes.row.shape[1]),
        np.int32(inputs.length),
        np.int32(replay.capacity),
        inputs.root_length,
    )
