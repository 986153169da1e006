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
    # Each word pair is one tensor, halving the operations: `even` is (x0, x2), `odd` is (x3, x1), the
    # order in which the rounds mix them.
    axes = max(key.dim(), counter.dim()) - 1
    words, keys = _words_first(counter, axes), _words_first(key, axes).flip(0)
    even, odd = words[0::2], words[1::2].flip(0)
    multiplier = _pair(MULTIPLIER_0, MULTIPLIER_1, axes, key.device)
    weyl = _pair(WEYL_1, WEYL_0, axes, key.device)
    for number in range(ROUNDS):
        product = even * multiplier
        mixed = ((product >> 32) & MASK) ^ odd ^ ((keys + number * weyl) & MASK)
        even, odd = mixed.flip(0), product & MASK
    return torch.stack([even[0], odd[1], even[1], odd[0]], dim=-1)


def _words_first(value: Tensor, axes: int) -> Tensor:
    """[..., W] -> [W, 1, .., 1, ...] with ``axes`` axes after the first, so that pairs broadcast."""
    words = value.movedim(-1, 0)
    return words.reshape(words.shape[0], *(1,) * (axes + 1 - value.dim()), *value.shape[:-1])


def _pair(first: int, second: int, axes: int, device: torch.device) -> Tensor:
    # Arithmetic instead of torch.tensor([..]), which would copy from the host inside a captured graph.
    ends = torch.arange(2, dtype=torch.int64, device=device) * (second - first) + first
    return ends.view(2, *(1,) * axes)


def draw(key: Tensor, purpose: Purpose, step: Tensor, lanes: Tensor) -> Tensor:
    """Draws four words per member and lane.

    Args:
        key: [M, 2] int64, (seed, fold) per member.
        purpose: What the draw is for.
        step: 0-d or [X] int64 tensor, read on the device.
        lanes: [X] int64.

    Returns:
        [M, X, 4] int64 words below 2^32.
    """
    return philox(key[:, None, :], counters(purpose, step, lanes)[None])


def counters(purpose: Purpose, step: Tensor, lanes: Tensor) -> Tensor:
    """Returns the counters [X, 4] int64 of :func:`draw`, for draws that are encrypted together."""
    counter = torch.zeros((lanes.shape[0], 4), dtype=torch.int64, device=lanes.device)
    counter[:, 0] = int(purpose)
    counter[:, 1] = step & MASK
    counter[:, 2] = lanes
    return counter


def uniform(word: Tensor, dtype: torch.dtype) -> Tensor:
    """Maps a word to [0, 1): (x >> 8) 2^-24, exact in float32."""
    return (word >> 8).to(dtype) * 2.0**-24


def integer(word: Tensor, bound: Tensor | int) -> Tensor:
    """Maps a word to [0, bound), bound below 2^31: (x bound) >> 32."""
    return (word * bound) >> 32
