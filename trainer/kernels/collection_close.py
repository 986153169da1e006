"""collection_close: launches cuda/collection_close.cu."""

from __future__ import annotations

import numpy as np

from trainer.fused.market_lanes import LANES_PER_BLOCK, THREADS
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.loader import load
from trainer.replay import ReplayBuffer


def collection_close(replay: ReplayBuffer, hyper: Hyperparameters, lanes: int, length: int) -> None:
    """Writes episode ends and priorities of the collection behind the write cursor.

    Args:
        replay: Its rings; the caller advances the cursor by E L afterwards.
        hyper: Per-member alpha.
        lanes: E.
        length: L.
    """
    load("collection_close").launch(
        (-(-lanes // LANES_PER_BLOCK), replay.members),
        THREADS,
        replay.rings.terminated,
        replay.rings.episode_stop,
        replay.priority,
        replay.largest_error,
        hyper.per_alpha,
        replay.written,
        np.int32(lanes),
        np.int32(length),
        np.int32(replay.capacity),
    )
