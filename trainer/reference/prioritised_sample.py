"""prioritised_sample: stratified draws proportional to priority, exact and free of summation order.

Schaul, Quan, Antonoglou, Silver 2016, "Prioritized Experience Replay", section 3.3 and appendix B.2.1.
Every sum adds integers, so a scan in any order (a GPU's too) finds the same index.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.reference.philox import Purpose, counters, integer, philox, uniform

MASS_PER_UNIT = 2.0**32


@dataclass(frozen=True)
class Drawn:
    """What was drawn, and how likely it was."""

    index: Tensor  # [M, B] int64, slot
    mass: Tensor  # [M, B] int64, integer priority of that slot
    total: Tensor  # [M] int64, sum of all integer priorities


def mass_of(priority: Tensor) -> Tensor:
    """Returns the integer priority rint(q 2^32) as int64; q <= 255 and C <= 2^21 keep sums below 2^62."""
    return (priority.to(torch.float64) * MASS_PER_UNIT).round().to(torch.int64)


def stratum_multiplier(batch_size: int) -> int:
    """Returns a, the first integer >= .618 B that is coprime to B."""
    multiplier = -(-618 * batch_size // 1000)
    while math.gcd(multiplier, batch_size) != 1:
        multiplier += 1
    return multiplier


def strata(batch_size: int, offset: Tensor) -> Tensor:
    """Returns the stratum j = (a r + b) mod B of every row r: [M, B] int64, a permutation per member.

    The permutation spreads the first rows (those that hindsight relabels) over the whole range of
    priorities, whatever the offset.

    Args:
        batch_size: B.
        offset: [M] int64, b in [0, B).
    """
    row = torch.arange(batch_size, dtype=torch.int64, device=offset.device)
    return (row * stratum_multiplier(batch_size) + offset[:, None]) % batch_size


def prioritised_sample(mass: Tensor, batch_size: int, step: Tensor, keys: Tensor) -> Drawn:
    """Draws one slot per stratum: the smallest whose prefix sum exceeds trunc((j + u)(T / B)).

    A slot of mass 0 leaves the prefix sum unchanged and is never drawn. Where nothing has mass the
    index is the last slot.

    Args:
        mass: [M, C] int64, integer priorities of all slots.
        batch_size: B.
        step: 0-d int64, gradient step.
        keys: [M, 2] int64, (seed, fold).
    """
    rows = torch.arange(batch_size, dtype=torch.int64, device=mass.device)
    counter = torch.cat(
        [counters(Purpose.SAMPLE_OFFSET, step, rows[:1]), counters(Purpose.SAMPLE_UNIFORM, step, rows)]
    )
    word = philox(keys[:, None, :], counter[None])[..., 0]  # [M, 1 + B]
    offset = integer(word[:, 0], batch_size)
    u = uniform(word[:, 1:], torch.float64)
    prefix = mass.cumsum(dim=1)
    total = prefix[:, -1]
    # A divisor in memory: a GPU would multiply by the reciprocal of a host number, which can be one bit off.
    width = total.to(torch.float64) / torch.full_like(total, batch_size, dtype=torch.float64)
    position = ((strata(batch_size, offset) + u) * width[:, None]).to(torch.int64)
    index = torch.searchsorted(prefix, position, right=True).clamp(max=mass.shape[1] - 1)
    return Drawn(index=index, mass=mass.gather(1, index), total=total)
