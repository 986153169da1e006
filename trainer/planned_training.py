"""plan_training: the memory plan of a configuration, from the very classes that will hold the tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch

from trainer.backend import resolve_backend
from trainer.config import TrainerConfig
from trainer.data.market_data import MarketData
from trainer.folds import Fold, split
from trainer.host_memory import host_memory
from trainer.hyperparameters import Hyperparameters
from trainer.layout import StateLayout
from trainer.learner import Learner
from trainer.market_environment import MarketEnvironment, market_layout
from trainer.market_tables import MarketTables
from trainer.members import members_of
from trainer.memory_plan import META, MIB, Item, Labels, MemoryPlan, items_of, require_fit
from trainer.parameter_block import ParameterBlock
from trainer.replay import ReplayBuffer
from trainer.transitions import Collection
from trainer.wording import plural

LIBRARIES = 512 * MIB  # CUDA context, code of the libraries, workspaces of matrix products
LIVE_LOGITS = 6  # logits, their shift, log-probabilities, probabilities, targets, gradient
CLOSE = 0.02  # of a number; the last step of the search for the largest
NICE = 32  # batches are proposed in multiples of it
REFERENCE_LABELS: Labels = (
    (ReplayBuffer, "replay"),
    (Collection, "collection"),
    (ParameterBlock, "networks"),
    (MarketEnvironment, "environment"),
    (MarketTables, "bars and features"),
)

BackendName = Literal["reference", "fused"]


def plan_training(
    config: TrainerConfig, market: MarketData, folds: Sequence[Fold], backend: BackendName
) -> MemoryPlan:
    """Counts what a training holds at its peak.

    Args:
        config: Shape keys.
        market: Number of bars and features.
        folds: One per member.
        backend: Which implementation.
    """
    if backend == "fused":
        from trainer.fused.planned_buffers import fused_plan

        plan = fused_plan(config, MarketTables.build(market, folds, config, torch.float32, META))
        return MemoryPlan(
            (*plan.items, Item("CUDA libraries", "an allowance", (), LIBRARIES)), plan.item_bytes
        )
    dtype = torch.float64 if config.training.dtype == "float64" else torch.float32
    members = len(folds)
    tables = MarketTables.build(market, folds, config, dtype, META)
    hyper = Hyperparameters.stack([config] * members, dtype, META)
    keys = torch.empty((members, 2), dtype=torch.int64, device=META)
    environment = MarketEnvironment(tables, config, hyper, keys, dtype, META)
    learner = Learner(environment, config, hyper, keys, dtype, META)
    items = items_of((tables, learner), "agent", REFERENCE_LABELS)
    items += activation_items(config, environment.layout, members, dtype)
    return MemoryPlan(tuple(items), learner.replay.bytes_per_item())


def activation_items(
    config: TrainerConfig, layout: StateLayout, members: int, dtype: torch.dtype
) -> list[Item]:
    """Lists what one gradient step of the reference makes and drops again: its largest tensors.

    Args:
        config: Batch size, atoms.
        layout: Branches.
        members: M.
        dtype: Floating type.
    """
    actions = sum(layout.actions_per_branch)
    shape = (members, config.agent.batch_size, actions, config.agent.num_atoms)
    logits = torch.empty(shape, dtype=dtype, device=META)
    return [Item("activations", "branch logits", shape, logits.nbytes)] * LIVE_LOGITS


def check_memory(
    config: TrainerConfig,
    market: MarketData,
    folds: Sequence[Fold],
    backend: BackendName,
    device: torch.device,
) -> None:
    """Refuses a training that cannot fit on its device, before it allocates anything.

    On the CPU that is what exceeds the machine: it may begin beside others, which end or give way.

    Raises:
        MemoryPlanError: Needed and free MiB, biggest items, largest batch and stack that fit.
    """
    on_gpu = device.type == "cuda"
    free = torch.cuda.mem_get_info(device)[0] if on_gpu else host_memory()
    layout = market_layout(config, len(market.feature_names))
    if generous_estimate(config, layout, len(folds)) <= free:
        return  # the exact plan takes a second
    plan = plan_training(config, market, folds, backend)
    if plan.total > free:
        advice = what_fits(config, market, folds, backend, free)
        where = torch.cuda.get_device_name(device) if on_gpu else "this machine where nothing else runs"
        require_fit(plan, free, where, advice)


def planned_bytes(config: TrainerConfig, market: MarketData, available: int) -> int:
    """Returns the bytes of a training's memory plan; an estimate above them where that fits anyway.

    Args:
        config: Shape keys; its backend trains on a GPU.
        market: Number of bars and features.
        available: Bytes; decides whether the exact plan, which takes a second, is needed.
    """
    cut = split(len(market.bars), config.walk_forward)
    folds = [cut.folds[member.fold] for member in members_of(config, len(cut.folds))]
    estimate = generous_estimate(config, market_layout(config, len(market.feature_names)), len(folds))
    if estimate <= available:
        return estimate
    return plan_training(config, market, folds, resolve_backend(config).name).total


def generous_estimate(config: TrainerConfig, layout: StateLayout, members: int) -> int:
    """Returns bytes that no plan exceeds, from a few products of the shape keys.

    Args:
        config: Shape keys.
        layout: State and branches.
        members: M.
    """
    agent, environment = config.agent, config.environment
    outputs = (1 + sum(layout.actions_per_branch)) * (agent.num_atoms + 8)
    widths = [layout.state_dim + 8, *(width + 16 for width in agent.trunk_widths)]
    heads = (1 + layout.num_branches) * (agent.head_width + 16)
    weights = sum(a * b for a, b in zip(widths, [*widths[1:], heads], strict=True))
    weights += (agent.head_width + 16) * outputs + sum(widths)
    rows = agent.batch_size + environment.episodes
    slot = 16 * layout.prefix_dim + layout.num_branches + 128
    slots = config.replay.capacity + environment.episodes * environment.episode_length
    activations = 64 * (outputs + heads) + 128 * sum(widths)
    return LIBRARIES + 16 * MIB + members * (slots * slot + rows * activations + 512 * weights)


def what_fits(
    config: TrainerConfig, market: MarketData, folds: Sequence[Fold], backend: BackendName, free: int
) -> str:
    """Says the largest batch and the largest stack that fit, all else kept.

    Args:
        config: Shape keys.
        market: Number of bars and features.
        folds: One per member.
        backend: Which implementation.
        free: Bytes.
    """
    batch, members = config.agent.batch_size, len(folds)

    def needed(rows: int, stack: int) -> int:
        chosen = config.with_overrides({"agent.batch_size": rows})
        repeated = [folds[number % members] for number in range(stack)]
        return plan_training(chosen, market, repeated, backend).total

    rows = NICE * largest(lambda count: needed(NICE * count, members), batch // NICE, free)
    rows = rows or largest(lambda rows: needed(rows, members), batch, free)
    stack = largest(lambda stack: needed(batch, stack), members, free)
    if rows == 0 and stack == 0:
        return (
            "neither a batch of 1 nor a single member fits: "
            "lower replay.capacity, environment.episodes or agent.trunk_widths"
        )
    return (
        f"what fits: agent.batch_size = {rows} with {plural(members, 'member')} (folds x seeds), "
        f"or {plural(stack, 'member')} with batch {batch}"
    )


def largest(needed: Callable[[int], int], present: int, free: int) -> int:
    """Returns a number that fits and that hardly any larger one exceeds; 0 if 1 does not fit.

    Bytes grow almost linearly, so straight lines between two plans lead there in a few steps.

    Args:
        needed: Bytes of a number; grows with it.
        present: The number that is configured.
        free: Bytes.
    """
    low, low_bytes = 1, needed(1)
    if low_bytes > free:
        return 0
    high = max(2, present)
    high_bytes = needed(high)
    while high_bytes <= free:
        low, low_bytes, high = high, high_bytes, 2 * high
        high_bytes = needed(high)
    while True:
        step = (high - low) * (free - low_bytes) // (high_bytes - low_bytes)
        middle = min(low + step, high - 1)
        if middle == low:
            return low
        middle_bytes = needed(middle)
        if middle_bytes > free:
            high, high_bytes = middle, middle_bytes
        elif middle - low <= low * CLOSE:
            return middle
        else:
            low, low_bytes = middle, middle_bytes
