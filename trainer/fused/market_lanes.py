"""MarketLanes: E lanes of the market for each of M members as the kernels of the collection hold them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainer.config import TrainerConfig
from trainer.fused.shapes import round_up
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.compilation import Defines
from trainer.kernels.relu import ACTIVATION_NAMES
from trainer.layout import StateLayout
from trainer.market_environment import goal_table
from trainer.market_tables import MarketTables
from trainer.reference.fills import exposures

EXACT_FLAGS = ("--fmad=false",)  # every operation rounds as in the reference, so that decisions fall alike
LANES_PER_BLOCK = 4
THREADS = 32 * LANES_PER_BLOCK
LEDGER_PLANES = 8
FIRST_MOMENT, VARIANCE = 6, 7


def state_defines(layout: StateLayout, act_dtype: torch.dtype, *, relative: bool) -> Defines:
    """Returns what the kernels that write input rows are compiled for."""
    return (
        ("TABLE_DIM", layout.table_dim),
        ("GOAL_HOLDS_ACHIEVED", int(layout.achieved_offset == 0)),
        ("ACTIVATION", ACTIVATION_NAMES[act_dtype]),
        ("RELATIVE", int(relative)),
    )


def step_defines(layout: StateLayout, act_dtype: torch.dtype, tables: MarketTables) -> Defines:
    """Returns what the kernels that trade a bar are compiled for."""
    return (
        *state_defines(layout, act_dtype, relative=tables.relative),
        ("NUM_BRANCHES", layout.num_branches),
        ("AT_CLOSE", int(tables.at_close)),
    )


@dataclass(frozen=True)
class LaneInputs:
    """What the lanes read and never write, all in device memory.

    Attributes:
        tables: Bars, features and windows of the members; float32.
        layout: Columns of a state.
        hyper: Costs, rate and kind of reward per member.
        keys: [M, 2] int64, (seed, fold).
        steps: 0-d int64, environment steps before the present collection; decides starts and goals.
        exposures: [n_0] float32.
        goals: [4096] float32, quantiles of N(0, 1).
        length: L.
    """

    tables: MarketTables
    layout: StateLayout
    hyper: Hyperparameters
    keys: Tensor
    steps: Tensor
    exposures: Tensor
    goals: Tensor
    length: int

    @classmethod
    def build(
        cls,
        tables: MarketTables,
        layout: StateLayout,
        hyper: Hyperparameters,
        keys: Tensor,
        steps: Tensor,
        length: int,
    ) -> LaneInputs:
        """Makes the two small tables besides."""
        device = tables.table.features.device
        grid = torch.tensor(exposures(layout.actions_per_branch[0]), dtype=torch.float32, device=device)
        goals = goal_table(torch.float32, device)
        return cls(tables, layout, hyper, keys.to(device), steps, grid, goals, length)

    @property
    def root_length(self) -> np.float32:
        """sqrt(L) as the reference's float32 arithmetic sees it."""
        return np.float32(self.length**0.5)


@dataclass(frozen=True)
class MarketLanes:
    """What the lanes hold; a lane at position L rests.

    Attributes:
        ledger: [8, M, E] float32: position, entry, equity, log equity at the start, age, bars held, A, V.
        goal: [M, E] float32, desired.
        row: [M, E] int32, bar of the state.
        position: [M, E] int32, steps made in the lane.
        episode_start: [M, E] int32, position in the lane at which its present episode began.
        action: [M, E, K] uint8, of the present step.
        state: [M, E, Sp] float32 or bfloat16, input rows of the networks.
    """

    ledger: Tensor
    goal: Tensor
    row: Tensor
    position: Tensor
    episode_start: Tensor
    action: Tensor
    state: Tensor

    @classmethod
    def allocate(
        cls,
        config: TrainerConfig,
        layout: StateLayout,
        members: int,
        act_dtype: torch.dtype,
        device: torch.device,
    ) -> MarketLanes:
        """Allocates resting lanes."""
        lanes = (members, config.environment.episodes)

        def zeros(*tail: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros((*lanes, *tail), dtype=dtype, device=device)

        return cls(
            ledger=torch.zeros((LEDGER_PLANES, *lanes), dtype=torch.float32, device=device),
            goal=zeros(dtype=torch.float32),
            row=zeros(dtype=torch.int32),
            position=zeros(dtype=torch.int32).fill_(config.environment.episode_length),
            episode_start=zeros(dtype=torch.int32),
            action=zeros(layout.num_branches, dtype=torch.uint8),
            state=zeros(round_up(layout.state_dim + 1), dtype=act_dtype),
        )

    def rest(self, length: int) -> None:
        """Ends every lane, in place; ``length`` is L."""
        self.ledger.zero_()
        self.position.fill_(length)

    @property
    def grid(self) -> tuple[int, int]:
        """Thread blocks of a kernel that gives each lane a warp."""
        members, lanes = self.row.shape
        return -(-lanes // LANES_PER_BLOCK), members

    def moments(self) -> Tensor:
        """Returns the view [2, M, E] of A and V."""
        return self.ledger[FIRST_MOMENT : VARIANCE + 1]
