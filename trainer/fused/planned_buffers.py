"""fused_plan: the memory plan of the fused backend, from its own classes on the meta device."""

from __future__ import annotations

import torch

from trainer.config import TrainerConfig
from trainer.fused.market_lanes import MarketLanes
from trainer.fused.parameters import NetworkParameters
from trainer.fused.step_buffers import StepBuffers
from trainer.fused.steps import FusedSteps
from trainer.fused.workspaces import QSlopes, QWorkspace, VSlopes, VWorkspace
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.evaluation_step import EvaluationLanes
from trainer.market_environment import market_layout
from trainer.market_tables import MarketTables
from trainer.memory_plan import Item, Labels, MemoryPlan, items_of
from trainer.replay import ReplayBuffer

LABELS: Labels = (
    (ReplayBuffer, "replay"),
    (NetworkParameters, "parameters, moments, gradients"),
    (QWorkspace, "activations"),
    (VWorkspace, "activations"),
    (QSlopes, "gradients of activations"),
    (VSlopes, "gradients of activations"),
    (StepBuffers, "batch"),
    (MarketLanes, "lanes"),
    (EvaluationLanes, "lanes"),
    (MarketTables, "bars and features"),
)


def fused_plan(config: TrainerConfig, tables: MarketTables) -> MemoryPlan:
    """Counts what the fused backend holds.

    Args:
        config: Shape keys and precision.
        tables: Of the stack's members, on the meta device.
    """
    features = tables.table.features
    members, device = tables.members, features.device
    layout = market_layout(config, features.shape[1])
    hyper = Hyperparameters.stack([config] * members, torch.float32, device)
    keys = torch.empty((members, 2), dtype=torch.int64, device=device)
    steps = FusedSteps(config, layout, tables.table, hyper, keys, device)
    agent, replay = steps.agent, steps.replay
    kind = agent.act_dtype, device
    shapes, lanes = agent.networks.shapes, config.environment.episodes
    owners: list[object] = [
        tables,
        hyper,
        steps,
        MarketLanes.allocate(config, layout, members, *kind),
        QWorkspace.allocate(shapes, members, lanes, *kind),
        EvaluationLanes.allocate(tables, layout, agent.act_dtype),
        QWorkspace.allocate(shapes, members, 1, *kind),
    ]
    if config.agent.use_iql:
        owners.append(VWorkspace.allocate(shapes, members, lanes, *kind))
    items = items_of(owners, "scalars and counters", LABELS)
    # A capture sets aside what its warm-up steps change, a checkpoint what it writes: never both at once.
    aside = sum(tensor.nbytes for tensor in agent.state_dict().values()) + replay.priority.nbytes
    items.append(Item("copies for captures and checkpoints", "agent and priorities", (), aside))
    return MemoryPlan(tuple(items), replay.bytes_per_item())
