"""philox: counter-based random numbers, the same on CPU and GPU and in any stack order.

Salmon, Moraes, Dror, Shaw 2011, "Parallel Random Numbers: As Easy as 1, 2, 3", Philox4x32-10.
Key = (seed, fold), counter = (purpose, step, lane, 0). PyTorch has no uint64 arithmetic, so 32-bit
words live in int64 tensors; products wrap modulo 2^64, which leaves both halves exact after masking.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

MASK = 0xFFFFFFFF
MULTIPLIER_0 = 0xD2511F53
MULTIPLIER_1 = 0xCD9E8D57
WEYL_0 = 0x9E3779B9
WEYL_1 = 0xBB67AE85
ROUNDS = 10


class Purpose(IntEnum):
    """The first counter word: what a draw is for. Two purposes never share a random number."""

    INITIAL_WEIGHT = 0  # step = tensor number, lane = element // 4
    SAMPLE_OFFSET = 1  # step = gradient step, lane = 0: the stratum offset b
    SAMPLE_UNIFORM = 2  # step = gradient step, lane = row of the batch
    DONOR = 3  # step = gradient step, lane = row of the batch
    EPISODE_START = 4  # step = environment step of the whole training, lane = lane
    GOAL = 5  # step = environment step of the whole training, lane = lane
    ACTION = 6  # step = environment step of the whole training, lane = lane * K + branch
    TASK = 7  # anything an environment draws besides: step as above, lane = lane


def philox(key: Tensor, counter: Tensor) -> Tensor:
    """Encrypts counters.

    Args:
        key: [..., 2] int64 words below 2^32.
        counter: [..., 4] int64 words below 2^32, broadcast against ``key``.

    Returns:
        [..., 4] int64 words below 2^32.
    """
    k0, k1 = key[..., 0], key[..., 1]
    x0, x1, x2, x3 = counter.unbind(-1)
    for _ in range(ROUNDS):
        p0, p1 = x0 * MULTIPLIER_0, x2 * MULTIPLIER_1
        x0, x1, x2, x3 = (
            ((p1 >> 32) & MASK) ^ x1 ^ k0,
            p1 & MASK,
            ((p0 >> 32) & MASK) ^ x3 ^ k1,
            p0 & MASK,
        )
        k0, k1 = (k0 + WEYL_0) & MASK, (k1 + WEYL_1) & MASK
    return torch.stack(torch.broadcast_tensors(x0, x1, x2, x3), dim=-1)


def draw(key: Tensor, purpose: Purpose, step: Tensor, lanes: Tensor) -> Tensor:
    """Draws four words per member and lane.

    Args:
        key: [M, 2] int64, (seed, fold) per member.
        purpose: What the draw is for.
        step: 0-d int64 tensor, read on the device.
        lanes: [X] int64.

    Returns:
        [M, X, 4] int64 words below 2^32.
    """
    counter = torch.zeros((lanes.shape[0], 4), dtype=torch.int64, device=lanes.device)
    counter[:, 0] = int(purpose)
    counter[:, 1] = step & MASK
    counter[:, 2] = lanes
    return philox(key[:, None, :], counter[None])


def uniform(word: Tensor, dtype: torch.dtype) -> Tensor:
    """Maps a word to [0, 1): (x >> 8) 2^-24, exact in float32."""
    return (word >> 8).to(dtype) * 2.0**-24


def integer(word: Tensor, bound: Tensor | int) -> Tensor:
    """Maps a word to [0, bound), bound below 2^31: (x bound) >> 32."""
    return (word * bound) >> 32
