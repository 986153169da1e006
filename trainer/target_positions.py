"""target_positions: what a deployed policy wants to hold after every bar, the newest one included."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from trainer.data.features import WARM_UP
from trainer.data.market_data import MarketData
from trainer.deployed_policy import DeployedPolicy, with_pending_bar
from trainer.errors import ConfigError
from trainer.evaluation import MemberEvaluation
from trainer.reference.fills import ORDER_TYPES, URGENCY_SHARES, OrderBook
from trainer.reference.ledger import target_position
from trainer.wording import plural

ORDERS = ("market", "limit", "adaptive")
URGENCIES = ("patient", "normal", "urgent")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TargetPositions:
    """One row per bar of the walk; M seeds, T bars.

    Attributes:
        time: [T] int64, nanoseconds since 1970 UTC of the bar at whose close was decided.
        seeds: M.
        position: [M, T] exposure held at that close, by the ledger of the evaluation.
        target: [M, T] exposure that the order decided there asks for.
        order: [M, T] index into ORDERS; None without that branch.
        urgency: [M, T] index into URGENCIES; None without that branch.
        alive: [M, T] bool, False after a bankruptcy: there position and target are 0.
    """

    time: NDArray[np.int64]
    seeds: tuple[int, ...]
    position: Floats
    target: Floats
    order: NDArray[np.int64] | None
    urgency: NDArray[np.int64] | None
    alive: NDArray[np.bool_]


def first_row(market: MarketData, since: int | None) -> int:
    """Finds where a walk may begin.

    Args:
        market: The bars; the first WARM_UP of them only fill the windows of the features.
        since: Timestamp to begin at, ns UTC; None for the first row with full windows.

    Raises:
        ConfigError: Too few bars, or a beginning among the warm-up bars or after the last.
    """
    time = market.bars.timestamp
    if len(time) <= WARM_UP:
        raise ConfigError(
            "--data",
            f"the features need {WARM_UP} bars of warm-up before the first signal, but {market.name} has "
            f"{plural(len(time), 'bar')}; prepend older bars",
        )
    if since is None:
        return WARM_UP
    row = int(np.searchsorted(time, since))
    if row == len(time):
        raise ConfigError(
            "--from", f"no bar is that late, the last is of {stamp(int(time[-1]))}; move it back"
        )
    if row < WARM_UP:
        raise ConfigError(
            "--from",
            f"the features need {WARM_UP} bars of warm-up before the first signal, but got {row}; begin at "
            f"{stamp(int(time[WARM_UP]))} or prepend older bars",
        )
    return row


def target_positions(policy: DeployedPolicy, market: MarketData, start: int) -> TargetPositions:
    """Walks rows [start, N) as an evaluation does, flat at the start, and decides at the last close too.

    On the rows of a test window, the positions are those of its evaluation bit for bit.

    Raises:
        CheckpointError: The market's features are not the policy's.
        ConfigError: Its bars have another step.
    """
    rows = len(market.bars)
    policy.require_features(market)
    policy.require_step(market)
    walk = policy.walk(with_pending_bar(market), start, rows + 1)
    held, alive = zip(*(_held(member, rows - start) for member in walk.evaluation.members), strict=True)
    position, living = np.stack(held), np.stack(alive)
    branches = policy.config.environment.actions_per_branch
    order = OrderBook(branches, torch.float64, walk.actions.device).decode(walk.actions)
    target = target_position(torch.from_numpy(position), order).numpy()
    indices = walk.actions.numpy()
    return TargetPositions(
        time=market.bars.timestamp[start:],
        seeds=tuple(member.seed for member in policy.members),
        position=position,
        target=np.where(living, target, 0.0),
        order=indices[..., 1] % ORDER_TYPES if len(branches) > 1 else None,
        urgency=indices[..., 2] % len(URGENCY_SHARES) if len(branches) > 2 else None,
        alive=living,
    )


def to_csv(targets: TargetPositions) -> str:
    """Writes one line per bar: timestamp, mean target over the seeds, then the columns of every seed."""
    names = ["timestamp", "target"]
    columns: list[list[str]] = [
        [stamp(int(time)) for time in targets.time],
        [repr(float(value)) for value in targets.target.mean(0)],
    ]
    for row, seed in enumerate(targets.seeds):
        alive = targets.alive[row]
        names += [f"seed_{seed}_target", f"seed_{seed}_position"]
        columns += [
            [repr(float(value)) for value in each[row]] for each in (targets.target, targets.position)
        ]
        for name, chosen, words in (
            ("order", targets.order, ORDERS),
            ("urgency", targets.urgency, URGENCIES),
        ):
            if chosen is not None:
                names.append(f"seed_{seed}_{name}")
                columns.append(
                    [words[index] if ok else "" for index, ok in zip(chosen[row], alive, strict=True)]
                )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue()


def stamp(time: int) -> str:
    """Formats nanoseconds since 1970 UTC as ISO 8601, to the second where that is exact."""
    moment = np.datetime64(time, "ns")
    return f"{moment.astype('datetime64[s]') if time % 10**9 == 0 else moment}Z"


def _held(member: MemberEvaluation, bars: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Positions [bars] at every close from the first, and whether there is still equity there."""
    position, alive = np.zeros(bars), np.ones(bars, dtype=np.bool_)
    size = min(member.positions.size, bars - 1)
    position[1 : size + 1] = member.positions[:size]
    if member.bankrupt:
        position[member.positions.size :] = 0.0
        alive[member.positions.size :] = False
    return position, alive
