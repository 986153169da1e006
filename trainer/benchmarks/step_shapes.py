"""The shapes every GPU step is timed at, shared by the peers and the fused trainer."""

from __future__ import annotations

from dataclasses import dataclass

STATE_DIM = 56
TRUNK_WIDTH = 256
HEAD_WIDTH = 128
NUM_ATOMS = 51
ACTIONS_PER_BRANCH = (3, 3, 3, 3)
HER_RATIO = 0.5
EPISODE = 128  # transitions per stored episode
V_MIN, V_MAX, GAMMA = -10.0, 10.0, 0.99


@dataclass(frozen=True)
class Shape:
    """One row of the table: a stack of M members with batch B and capacity C per member."""

    members: int
    batch_size: int
    capacity: int


SHAPES = (
    Shape(1, 256, 2**17),
    Shape(15, 256, 2**17),
    Shape(60, 256, 2**15),
    Shape(1, 16384, 2**17),
    Shape(4, 16384, 2**17),
)
