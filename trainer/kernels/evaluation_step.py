"""evaluation_step: launches cuda/evaluation_step.cu."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainer.fused.market_lanes import (
    EXACT_FLAGS,
    LANES_PER_BLOCK,
    LEDGER_PLANES,
    THREADS,
    step_defines,
)
from trainer.fused.shapes import round_up
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.loader import load
from trainer.layout import StateLayout
from trainer.market_tables import MarketTables
from trainer.reference.fills import exposures

TRACE_PLANES = 6
OPENING = -1  # of ``bar``: the next step opens the window instead of trading


@dataclass(frozen=True)
class EvaluationLanes:
    """One lane per member over its test window, in device memory.

    Attributes:
        ledger: [8, M] float64, planes as in :class:`trainer.fused.market_lanes.MarketLanes`.
        bar: [M] int32, decisions made; OPENING before the first state, T at rest.
        first: [M] int64, row of the first decision.
        last: [M] int64, row of the last decision.
        exposures: [n_0] float64.
        action: [M, 1, K] uint8, of the present bar.
        state: [M, 1, Sp] float32 or bfloat16, input rows of the networks.
        trace: [6, M, T] float64: return, position, traded, costs, 1 where bankrupt, impact.
    """

    ledger: Tensor
    bar: Tensor
    first: Tensor
    last: Tensor
    exposures: Tensor
    action: Tensor
    state: Tensor
    trace: Tensor

    @classmethod
    def allocate(cls, tables: MarketTables, layout: StateLayout, act_dtype: torch.dtype) -> EvaluationLanes:
        """Allocates resting lanes for the test windows of ``tables``."""
        members, device = tables.members, tables.table.features.device
        bars = max(fold.test_stop - fold.test_start for fold in tables.folds) - 1
        float64, int64 = torch.float64, torch.int64
        shape = (members, 1, round_up(layout.state_dim + 1))
        return cls(
            ledger=torch.zeros((LEDGER_PLANES, members), dtype=float64, device=device),
            bar=torch.full((members,), bars, dtype=torch.int32, device=device),
            first=torch.tensor([fold.test_start for fold in tables.folds], dtype=int64, device=device),
            last=torch.tensor([fold.test_stop - 2 for fold in tables.folds], dtype=int64, device=device),
            exposures=torch.tensor(exposures(layout.actions_per_branch[0]), dtype=float64, device=device),
            action=torch.zeros((members, 1, layout.num_branches), dtype=torch.uint8, device=device),
            state=torch.zeros(shape, dtype=act_dtype, device=device),
            trace=torch.zeros((TRACE_PLANES, members, bars), dtype=float64, device=device),
        )

    @property
    def bars(self) -> int:
        """T, returns of the longest window."""
        return self.trace.shape[2]


def evaluation_step(
    tables: MarketTables,
    layout: StateLayout,
    hyper: Hyperparameters,
    lanes: EvaluationLanes,
    desired: float,
    length: int,
) -> None:
    """Opens the window, or trades one bar, and writes the input row of the next decision.

    Args:
        tables: ``exact_bars``, features and windows.
        layout: Columns of a state.
        hyper: Costs and adaptation rate per member.
        lanes: ``action`` is carried out, the rest moved on by one bar; members at bar T rest.
        desired: Goal of every episode.
        length: L, bars after which the episode's bookkeeping restarts.
    """
    table, bars = tables.table, tables.exact_bars
    members = tables.members
    load("evaluation_step", step_defines(layout, lanes.state.dtype, tables), flags=EXACT_FLAGS).launch(
        (-(-members // LANES_PER_BLOCK),),
        THREADS,
        lanes.action,
        bars.moves,
        bars.moves if bars.notional is None else bars.notional,
        lanes.exposures,
        tables.exact_sigma,
        hyper.maker_cost,
        hyper.taker_cost,
        hyper.impact,
        hyper.adaptation_rate,
        lanes.first,
        lanes.last,
        table.features,
        table.center,
        table.inverse_scale,
        np.float32(table.limit),
        lanes.ledger,
        lanes.bar,
        lanes.trace,
        lanes.state,
        np.float64(desired),
        np.float64(length**0.5),
        np.int32(members),
        np.int32(lanes.bars),
        np.int32(length),
    )
