"""replay_insert: appends a whole collection to every member's ring in one launch."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from trainer.hyperparameters import Hyperparameters
from trainer.kernels.loader import load
from trainer.replay import Rings
from trainer.transitions import Collection

ITEMS_PER_BLOCK = 64
THREADS = 256


def replay_insert(
    collection: Collection, rings: Rings, largest_error: Tensor, written: Tensor, hyper: Hyperparameters
) -> None:
    """Copies E L transitions per member behind the write cursor, which the caller advances afterwards.

    Args:
        collection: Float32, E L <= C.
        rings: Written, [M, C, ...].
        largest_error: [M] float32, whose priority the new items take.
        written: 0-d int64, items written before.
        hyper: Per-member alpha.
    """
    members, lanes, length = collection.row.shape
    capacity, count = rings.priority.shape[1], lanes * length
    defines = (("PREFIX_DIM", rings.prefix.shape[2]), ("NUM_BRANCHES", rings.action.shape[2]))
    load("replay_insert", defines).launch(
        (-(-count // ITEMS_PER_BLOCK), members),
        THREADS,
        collection.prefix,
        collection.next_prefix,
        collection.row,
        collection.action,
        collection.reward,
        collection.terminated,
        collection.truncated,
        collection.episode_start,
        collection.episode_stop,
        rings.prefix,
        rings.next_prefix,
        rings.row,
        rings.action,
        rings.reward,
        rings.terminated,
        rings.truncated,
        rings.episode_start,
        rings.episode_stop,
        rings.priority,
        largest_error,
        hyper.per_alpha,
        written,
        np.int32(count),
        np.int32(length),
        np.int32(capacity),
    )
