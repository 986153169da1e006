"""FusedCollector: an epoch's experience without the host: every step is a replay of one captured graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.config import TrainerConfig
from trainer.errors import ConfigError
from trainer.fused.market_lanes import LaneInputs, MarketLanes
from trainer.fused.networks import FusedNetworks
from trainer.fused.precision import Precision, activation_dtype, matmul_precision
from trainer.fused.workspaces import QWorkspace, VWorkspace
from trainer.graph import GraphedCallable
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.act import ActionDraws, act
from trainer.kernels.collection_close import collection_close
from trainer.kernels.market_begin import market_begin
from trainer.kernels.market_step import market_step
from trainer.market_environment import market_layout
from trainer.market_tables import MarketTables
from trainer.replay import ReplayBuffer

STEPS_PER_GRAPH = 8  # where L is a multiple of it


@dataclass(frozen=True)
class CollectionCounters:
    """Steps of the whole training, 0-d int64 in device memory; what random numbers depend on.

    Attributes:
        steps: Of the environment; decides starts and goals.
        acted: Of the policy; decides actions.
    """

    steps: Tensor
    acted: Tensor


class FusedCollector:
    """E lanes of L transitions per member, written straight into the rings of the replay.

    The same draws, episodes and slots as ``trainer.collector.collect`` with ``MarketEnvironment`` followed
    by ``ReplayBuffer.insert``; ``replay.mass`` is not kept.

    Args:
        tables: Bars, features and windows of the members; float32 on a CUDA device.
        config: Shape keys: E, L, branches, use_iql.
        hyper: Per-member scalars; overwriting them in place takes effect at the next step.
        keys: [M, 2] int64 Philox keys (seed, fold).
        networks: Read by every step.
        replay: Receives the transitions.
        counters: Advanced by L at the end of every collection.
        precision: Of the operands of matrix products.
        graphed: False launches every kernel from the host instead of replaying.

    Attributes:
        lanes: What the lanes hold.

    Raises:
        ConfigError: If E L > C, where lanes of one collection would overwrite each other.
    """

    def __init__(
        self,
        tables: MarketTables,
        config: TrainerConfig,
        hyper: Hyperparameters,
        keys: Tensor,
        networks: FusedNetworks,
        replay: ReplayBuffer,
        counters: CollectionCounters,
        precision: Precision,
        *,
        graphed: bool = True,
    ) -> None:
        environment, device = config.environment, tables.table.features.device
        self._count = environment.episodes * environment.episode_length
        if self._count > replay.capacity:
            raise ConfigError(
                "replay.capacity",
                "`episodes * episode_length <= capacity` must hold, but got "
                f"{self._count} > {replay.capacity}",
            )
        layout = market_layout(config, tables.table.features.shape[1])
        act_dtype, members = activation_dtype(precision), tables.members
        self.lanes = MarketLanes.allocate(config, layout, members, act_dtype, device)
        self._inputs = LaneInputs.build(
            tables, layout, hyper, keys, counters.steps, environment.episode_length
        )
        self._counters = counters
        self._draws = ActionDraws(self._inputs.keys, counters.acted, self.lanes.position)
        self._hyper, self._networks, self._replay, self._precision = hyper, networks, replay, precision
        rows = environment.episodes
        self._q = QWorkspace.allocate(networks.shapes, members, rows, act_dtype, device)
        self._value = (
            VWorkspace.allocate(networks.shapes, members, rows, act_dtype, device)
            if config.agent.use_iql
            else None
        )
        self._means = torch.zeros(2, dtype=torch.float32, device=device)
        self._means_on_host = torch.zeros(2, dtype=torch.float32, pin_memory=True)
        self._means_arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._per_replay = STEPS_PER_GRAPH if environment.episode_length % STEPS_PER_GRAPH == 0 else 1
        # The lanes rest, so the calls that warm up change nothing but the networks' activations.
        self._graph = GraphedCallable(self._advance, lambda: None, enabled=graphed)

    def reset(self) -> None:
        """Goes back to resting lanes that have seen nothing, in place."""
        self.lanes.rest(self._inputs.length)
        self._means_arrived.synchronize()
        self._means_on_host.zero_()

    @torch.no_grad()
    def collect(self) -> None:
        """Fills E lanes of L transitions per member with the sampled policy and stores them."""
        lanes, length = self.lanes.row.shape[1], self._inputs.length
        market_begin(self._inputs, self.lanes, self._replay)
        for _ in range(length // self._per_replay):
            self._graph.replay()
        collection_close(self._replay, self._hyper, lanes, length)
        self._replay.advance(self._count)
        self._counters.steps.add_(length)
        self._counters.acted.add_(length)
        torch.mean(self.lanes.moments().flatten(1), dim=1, out=self._means)
        self._means_on_host.copy_(self._means, non_blocking=True)
        self._means_arrived.record()

    def moments(self) -> tuple[float, float]:
        """Means of A and V over members and lanes at the end of the last collection.

        They were sent to the host when the collection was queued, so that reading them waits for nothing
        queued later.
        """
        self._means_arrived.synchronize()
        first_moment, variance = self._means_on_host.tolist()
        return first_moment, variance

    @torch.no_grad()
    def _advance(self) -> None:
        for _ in range(self._per_replay):
            self._act()
            market_step(self._inputs, self.lanes, self._replay)

    def _act(self) -> None:
        networks, state = self._networks, self.lanes.state
        with matmul_precision(self._precision):
            networks.q_forward(state, self._q)
            if self._value is not None:
                networks.v_forward(state, self._value, "high")
        act(networks, self._q, self._value, self._hyper, self._draws, self.lanes.action)
