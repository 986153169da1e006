"""FusedEvaluation: the greedy walk over the test windows, many bars per replay of one captured graph."""

from __future__ import annotations

import math

import torch

from trainer.config import TrainerConfig
from trainer.evaluation import MarketEvaluation, Trace, cut_to_windows
from trainer.fused.networks import FusedNetworks
from trainer.fused.precision import Precision, activation_dtype, matmul_precision
from trainer.fused.workspaces import QWorkspace
from trainer.graph import GraphedCallable
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.act import act_greedily
from trainer.kernels.evaluation_step import OPENING, EvaluationLanes, evaluation_step
from trainer.kernels.greedy_row import fits, greedy_row
from trainer.market_environment import market_layout
from trainer.market_tables import MarketTables
from trainer.phases import phase

MOST_BARS = 64  # per replay: two kernels each; the host is needed once for all of them


class FusedEvaluation:
    """What ``trainer.evaluation.evaluate`` does with the greedy policy, read back once at its end.

    Args:
        tables: Bars, features and windows of the members; float32 on a CUDA device.
        config: Branches, L and the desired goal (goal.eval).
        hyper: Costs and adaptation rate per member.
        networks: Read by every bar.
        precision: Of the operands of matrix products.
        graphed: False launches every kernel from the host instead of replaying.

    Attributes:
        lanes: One per member.
        replays: Of one walk.
        bars_per_replay: Their product with ``replays`` covers the longest window; lanes rest beyond it.
    """

    def __init__(
        self,
        tables: MarketTables,
        config: TrainerConfig,
        hyper: Hyperparameters,
        networks: FusedNetworks,
        precision: Precision,
        *,
        graphed: bool = True,
    ) -> None:
        self._tables, self._hyper, self._networks, self._precision = tables, hyper, networks, precision
        self._layout = market_layout(config, tables.table.features.shape[1])
        self._desired, self._length = config.goal.eval, config.environment.episode_length
        act_dtype, device = activation_dtype(precision), tables.table.features.device
        self.lanes = EvaluationLanes.allocate(tables, self._layout, act_dtype)
        self._q = QWorkspace.allocate(networks.shapes, tables.members, 1, act_dtype, device)
        self._closes = tables.exact_bars.moves[:, 3].cpu().numpy()
        self._in_one_launch = fits(networks.shapes, act_dtype)
        self.replays, self.bars_per_replay = even_replays(self.lanes.bars, MOST_BARS)
        # The lanes rest, so the calls that warm up change nothing but the networks' activations.
        self._graph = GraphedCallable(
            self._advance_replay, lambda: None, enabled=graphed, warm_up=self._advance
        )

    @torch.no_grad()
    def evaluate(self) -> MarketEvaluation:
        """Walks all members through their test windows; waits for the device once."""
        with phase("walk"):
            self.lanes.bar.fill_(OPENING)
            self._step()
            for _ in range(self.replays):
                self._graph.replay()
        trace = Trace(*self.lanes.trace.cpu().unbind(0))
        return MarketEvaluation(cut_to_windows(trace, self._tables, self._closes))

    def _advance_replay(self) -> None:
        for _ in range(self.bars_per_replay):
            self._advance()

    @torch.no_grad()
    def _advance(self) -> None:
        if self._in_one_launch:
            greedy_row(self._networks, self.lanes.state, self._q.logits, self._hyper, self.lanes.action)
        else:
            with matmul_precision(self._precision):
                self._networks.q_forward(self.lanes.state, self._q)
            act_greedily(self._networks, self._q, self._hyper, self.lanes.action)
        self._step()

    def _step(self) -> None:
        evaluation_step(self._tables, self._layout, self._hyper, self.lanes, self._desired, self._length)


def even_replays(bars: int, most: int) -> tuple[int, int]:
    """Returns (replays, bars per replay): as few replays as ``most`` allows, and of these as short as can be.

    Fewer bars than there are replays are walked in vain.
    """
    replays = max(1, math.ceil(bars / most))
    return replays, math.ceil(bars / replays)
