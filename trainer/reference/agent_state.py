"""agent_state: what an agent knows about itself, and the bookkeeping of an episode behind it.

Columns of the agent part: position, unrealised return / sigma, bars in position / L, episode progress,
A / s and log(s^2 / sigma^2) / 2 with s^2 = max(V, v_floor), A and V of the differential Sharpe ratio.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.reference.differential_sharpe import SharpeStep
from trainer.reference.ledger import Account, unrealised_return

AGENT_COLUMNS = 6
RETURN_LIMIT = 10.0  # achieved goal and unrealised return, in deviations
SMALLEST_EQUITY = 1e-6


class Episode(NamedTuple):
    """What an episode's start resets while position and equity may carry over."""

    log_start: Tensor  # log equity at the start
    age: Tensor  # bars since the start
    held: Tensor  # bars in the present position, 1 at the first close after it was opened
    first_moment: Tensor  # A
    variance: Tensor  # V


def log_equity(equity: Tensor) -> Tensor:
    """Returns log(max(equity, 1e-6))."""
    return equity.clamp_min(SMALLEST_EQUITY).log()


def fresh_episode(equity: Tensor, sigma: Tensor) -> Episode:
    """Starts the bookkeeping at ``equity``: A = 0, V = sigma^2, nothing held for any time."""
    zero = torch.zeros_like(equity)
    return Episode(log_equity(equity), zero, zero, zero, sigma.square().expand_as(equity))


def advance_episode(episode: Episode, old_position: Tensor, position: Tensor, sharpe: SharpeStep) -> Episode:
    """Moves the bookkeeping on by one bar.

    Args:
        episode: [M, E] before the bar.
        old_position: [M, E] exposure held into the bar.
        position: [M, E] exposure held at its close; a bar that turns the sign round starts ``held`` anew.
        sharpe: The moments after the bar.
    """
    kept = old_position * position > 0
    held = torch.where(position == 0, 0, torch.where(kept, episode.held, 0) + 1)
    return Episode(episode.log_start, episode.age + 1, held, sharpe.first_moment, sharpe.variance)


def observe(
    account: Account, episode: Episode, sigma: Tensor, floor: Tensor, length: int, *, relative: bool
) -> Tensor:
    """Builds the achieved goal and the agent columns.

    Args:
        account: [M, E] at c_t.
        episode: [M, E].
        sigma: [M, 1] deviation of the training window's returns.
        floor: [M, 1] v_floor.
        length: L, bars of an episode.
        relative: Percent returns (data.returns = percent).

    Returns:
        [M, E, 1 + 6]: clip(log(equity / start equity) / (sigma sqrt(L)), -10, 10), then the agent part.
    """
    growth = (log_equity(account.equity) - episode.log_start) / (sigma * length**0.5)
    unrealised = unrealised_return(account, relative=relative) / sigma
    variance = torch.maximum(episode.variance, floor)
    return torch.stack(
        [
            growth.clamp(-RETURN_LIMIT, RETURN_LIMIT),
            account.position,
            unrealised.clamp(-RETURN_LIMIT, RETURN_LIMIT),
            (episode.held / length).clamp_max(1),
            episode.age / length,
            episode.first_moment / variance.sqrt(),
            (variance / sigma.square()).log() / 2,
        ],
        dim=-1,
    )
