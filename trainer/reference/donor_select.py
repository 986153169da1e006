"""donor_select: which transition's achieved goal becomes the new goal of a relabelled row.

Andrychowicz et al. 2017, "Hindsight Experience Replay", section 4.5: strategies final, future, episode,
random. Positions count all writes since the start, so an episode that wraps around the end of the ring
is an ordinary interval and slot = position mod C.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.hyperparameters import STRATEGIES
from trainer.reference.philox import integer

FINAL, FUTURE, EPISODE, RANDOM = (STRATEGIES.index(name) for name in ("final", "future", "episode", "random"))


class RingRows(NamedTuple):
    """Where rows of a batch lie in the ring."""

    slot: Tensor  # [M, B] int64
    episode_start: Tensor  # [M, B] int64, write position of the episode's first transition
    episode_stop: Tensor  # [M, B] int64, write position after the episode's last transition


def donor_select(
    rows: RingRows, written: Tensor, capacity: int, word: Tensor, strategy: Tensor, future_offset: Tensor
) -> Tensor:
    """Chooses one donor per row.

    With i the row's position and [start, end) its episode: final takes end - 1; future is uniform on
    [i + future_offset, end - 1], and i itself if that is empty; episode is uniform on [start, end - 1];
    random is uniform on all stored slots. A row whose episode has lost its beginning to the write
    cursor is its own donor, except under random. Nothing at or after the write cursor is ever chosen.

    Args:
        rows: Slots and episodes of the rows.
        written: 0-d int64, items written since the start.
        capacity: C.
        word: [M, B] int64, one random word below 2^32 per row.
        strategy: [M] int32, index into STRATEGIES.
        future_offset: [M] int32, 1: strictly later than the row, 0: the row may draw itself.

    Returns:
        [M, B] int64, slot of the donor.
    """
    newest = written - 1
    position = newest - torch.remainder(newest - rows.slot, capacity)
    stop = torch.minimum(rows.episode_stop, written)
    # An empty range has first = end, one past its last; the row itself is then end - 1.
    first = torch.minimum(position + future_offset[:, None], stop - 1)
    future = first + integer(word, stop - first)
    episode = rows.episode_start + integer(word, stop - rows.episode_start)
    chosen = _by_strategy(strategy, stop - 1, future, episode)
    whole = rows.episode_start >= written - capacity
    donor = torch.remainder(torch.where(whole, chosen, position), capacity)
    anywhere = integer(word, written.clamp(max=capacity))
    return torch.where((strategy == RANDOM)[:, None], anywhere, donor)


def _by_strategy(strategy: Tensor, final: Tensor, future: Tensor, episode: Tensor) -> Tensor:
    of_future, of_episode = (strategy == FUTURE)[:, None], (strategy == EPISODE)[:, None]
    return torch.where(of_future, future, torch.where(of_episode, episode, final))
