"""What ``foxtune train --dry-run`` prints: members, shapes, and bytes per buffer, with nothing allocated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.config import AgentConfig, TrainerConfig
from trainer.data.market import MarketData
from trainer.folds import split
from trainer.layout import StateLayout
from trainer.market_environment import market_layout
from trainer.members import members_of
from trainer.networks import QNetwork, ValueNetwork
from trainer.replay import ReplayBuffer
from trainer.transitions import Collection

MIB = 2**20
META = torch.device("meta")  # shapes without memory


@dataclass(frozen=True)
class Buffer:
    """One group of tensors: what it is, its leading shape, its size in bytes."""

    name: str
    shape: str
    size: int


def plan(config: TrainerConfig, market: MarketData) -> str:
    """Describes a training without running it.

    Args:
        config: The effective configuration.
        market: Gives the number of bars and of features.

    Returns:
        Several lines for the user.
    """
    rows = len(market.bars)
    parts = split(rows, config.walk_forward)
    members = members_of(config, len(parts.folds))
    layout = market_layout(config, len(market.feature_names))
    lines = [
        f"{market.name}: {rows} bars, {market.periods_per_year:.2f} a year, data {market.data_hash[:12]}",
        f"search rows 0..{parts.search_rows - 1}, hold-out from row {parts.holdout_start}, "
        f"{parts.unused_rows} rows unused",
        f"{len(members)} members = {len(parts.folds)} folds x {config.training.seeds} seeds, "
        f"{config.training.epochs} x {config.training.updates} steps, batch {config.agent.batch_size}",
    ]
    for number, fold in enumerate(parts.folds):
        lines.append(
            f"  fold {number}: train {fold.train_start}..{fold.train_stop - 1}, "
            f"test {fold.test_start}..{fold.test_stop - 1}"
        )
    lines.append(
        f"state {layout.state_dim} = {layout.prefix_dim} stored + {layout.table_dim} from the feature table; "
        f"branches {'x'.join(str(count) for count in layout.actions_per_branch)}, "
        f"{config.agent.num_atoms} atoms"
    )
    found = buffers(config, layout, len(members), rows)
    width = max(len(buffer.name) for buffer in found)
    shapes = max(len(buffer.shape) for buffer in found)
    lines += [f"  {each.name:{width}}  {each.shape:{shapes}}  {each.size / MIB:>9.2f} MiB" for each in found]
    lines.append(f"  {'total':{width}}  {'':{shapes}}  {sum(each.size for each in found) / MIB:>9.2f} MiB")
    return "\n".join(lines)


def buffers(config: TrainerConfig, layout: StateLayout, members: int, rows: int) -> list[Buffer]:
    """Sizes the long-lived buffers of a training by building them on the meta device.

    Args:
        config: Shape keys.
        layout: Of the state.
        members: M.
        rows: Bars of the feature table.

    Returns:
        One entry per group of buffers.
    """
    dtype = torch.float64 if config.training.dtype == "float64" else torch.float32
    lanes, length = config.environment.episodes, config.environment.episode_length
    agent, capacity = config.agent, config.replay.capacity
    replay = ReplayBuffer(members, capacity, layout, dtype, META)
    collection = Collection.allocate(members, lanes, length, layout, dtype, META)
    outputs = sum(layout.actions_per_branch) + 1
    logits = torch.empty((members, agent.batch_size, outputs, agent.num_atoms), dtype=dtype, device=META)
    table = torch.empty((rows, layout.table_dim), dtype=dtype, device=META)
    return [
        Buffer("replay", f"[{members}, {capacity}]", members * capacity * replay.bytes_per_item()),
        Buffer("collection", _shape(collection.row), _bytes(vars(collection).values())),
        Buffer("feature table", _shape(table), table.nbytes),
        *_network_buffers(agent, layout, members, dtype),
        Buffer("logits of a batch", _shape(logits), logits.nbytes),
    ]


def _network_buffers(
    agent: AgentConfig, layout: StateLayout, members: int, dtype: torch.dtype
) -> list[Buffer]:
    # A block is values and gradient; Adam adds two moments of the same size. A slow copy is a block.
    q = QNetwork(agent, layout, members, dtype, META).block.value
    found = [Buffer("Q network, Adam", _shape(q), 4 * q.nbytes)]
    if agent.use_iql:
        value = ValueNetwork(agent, layout, 2 * members, dtype, META).block.value
        found.append(Buffer("V networks, Adam, slow copy", _shape(value), 5 * value.nbytes))
    else:
        found.append(Buffer("slow copy of Q", _shape(q), 2 * q.nbytes))
    return found


def _shape(tensor: Tensor) -> str:
    return str(list(tensor.shape))


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)
