"""DeployedPolicy: the newest models of a finished trial, walking bars that they were not trained on.

A trial leaves one model per fold and seed. The one that trades afterwards is the last fold's of every
seed, because its training window ends last, with the scaler and sigma of that very window. Nothing is
fitted again, and the walk is the evaluation's own: same ledger, same bookkeeping, same greedy policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from trainer.config import TrainerConfig
from trainer.data.bars import SAME_STEP, Bars, Fill
from trainer.data.features import FEATURE_VERSION
from trainer.data.market_data import MarketData
from trainer.errors import CheckpointError, ConfigError
from trainer.evaluation import MarketEvaluation, evaluate
from trainer.folds import Fold
from trainer.hyperparameters import Hyperparameters
from trainer.layout import FeatureTable
from trainer.market_environment import market_layout
from trainer.market_tables import BarTable, MarketTables, bar_moves
from trainer.members import Member
from trainer.networks import QNetwork
from trainer.reference.advantage_policy import greedy_actions
from trainer.reference.c51_support import support
from trainer.wording import plural

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Walk:
    """A greedy walk over one window.

    Attributes:
        evaluation: As the evaluation of a test window gives it, one entry per member.
        actions: [M, T, K] int64, what was decided at the close of every row but the window's last.
    """

    evaluation: MarketEvaluation
    actions: Tensor


@dataclass(frozen=True)
class DeployedPolicy:
    """M models, one per fold and seed as a training leaves them, one per seed as they trade; F features.

    Attributes:
        config: The configuration that was trained with.
        members: Seed and fold of every model.
        data_hash: Of the data that was trained on.
        feature_names: F names.
        feature_version: Of the formulas behind them.
        fill: How market orders filled in training.
        weights: ``q`` [M, P] and, with IQL, ``value`` [2M, P'] in the reference's layout.
        center: [M, F] of the training windows, in the training's floating type.
        inverse_scale: [M, F].
        sigma: [M] float64, deviation of the training windows' bar returns.
        step: Between neighbouring bars that were trained on, seconds; None if it varies, and in older files.
    """

    config: TrainerConfig
    members: tuple[Member, ...]
    data_hash: str
    feature_names: tuple[str, ...]
    feature_version: int
    fill: Fill
    weights: dict[str, Tensor]
    center: Tensor
    inverse_scale: Tensor
    sigma: Tensor
    step: float | None

    def newest(self) -> DeployedPolicy:
        """Keeps the last fold's model of every seed."""
        last = max(member.fold for member in self.members)
        rows = [index for index, member in enumerate(self.members) if member.fold == last]
        count = len(self.members)

        def chosen(block: Tensor) -> Tensor:  # V_high and V_low lie one stack above the other
            return block.view(-1, count, block.shape[1])[:, rows].reshape(-1, block.shape[1])

        return replace(
            self,
            members=tuple(self.members[row] for row in rows),
            weights={name: chosen(block) for name, block in self.weights.items()},
            center=self.center[rows],
            inverse_scale=self.inverse_scale[rows],
            sigma=self.sigma[rows],
        )

    def require_features(self, market: MarketData) -> None:
        """Refuses a market whose features are not those that were trained on.

        Raises:
            CheckpointError: Naming both.
        """
        if self.feature_names != market.feature_names:
            raise CheckpointError(
                f"the policy reads {plural(len(self.feature_names), 'feature')} "
                f"({_some(self.feature_names)}), but {market.name} gives "
                f"{len(market.feature_names)} ({_some(market.feature_names)}); "
                "give data of the kind that it was trained on"
            )
        if self.feature_version != FEATURE_VERSION:
            raise CheckpointError(
                f"the policy reads features of version {self.feature_version}, but this foxtune makes "
                f"version {FEATURE_VERSION}; use the foxtune that trained it, or train again"
            )

    def require_step(self, market: MarketData) -> None:
        """Refuses bars of another step than those that were trained on; holes and uneven months are none.

        Raises:
            ConfigError: Naming both median steps.
        """
        trained, given = self.step, market.bars.median_step
        if trained is not None and not 1 / SAME_STEP < given / trained < SAME_STEP:
            raise ConfigError(
                "--data",
                f"signals need the step that was trained on, {trained:.10g} s between bars (median), but "
                f"{market.name} has {given:.10g} s; give bars of {trained:.10g} s",
            )

    def walk(self, market: MarketData, start: int, stop: int) -> Walk:
        """Trades rows [start, stop) greedily, flat at the start and closed by force at the end.

        Args:
            market: Bars and features.
            start: First row, at whose close the first decision falls.
            stop: One after the last row, where nothing is decided any more; at least ``start + 2``.

        Raises:
            CheckpointError: The market's features are others.
        """
        self.require_features(market)
        torch.set_num_threads(self.config.training.threads)  # as in training: sums keep their order
        tables = self._tables(market, Fold(0, 0, start, stop))
        hyper = Hyperparameters.stack([self.config] * len(self.members), self.center.dtype, CPU)
        network = self._network()
        atoms = support(hyper.v_min, hyper.v_max, self.config.agent.num_atoms)
        actions: list[Tensor] = []

        def decide(state: Tensor) -> Tensor:
            action = greedy_actions(network.expected(state, atoms), network.actions_per_branch)
            actions.append(action[:, 0])
            return action

        return Walk(evaluate(tables, hyper, self.config, decide), torch.stack(actions, 1))

    def _network(self) -> QNetwork:
        layout = market_layout(self.config, len(self.feature_names))
        network = QNetwork(self.config.agent, layout, len(self.members), self.center.dtype, CPU)
        network.block.value.copy_(self.weights["q"])
        return network

    def _tables(self, market: MarketData, window: Fold) -> MarketTables:
        """The tables of training with a window of its own and nothing fitted."""
        dtype, members = self.center.dtype, len(self.members)
        moves, notional = bar_moves(market.bars, self.config.data)
        return MarketTables(
            bars=BarTable.of(moves, notional, dtype, CPU),
            exact_bars=BarTable.of(moves, notional, torch.float64, CPU),
            table=FeatureTable(torch.tensor(market.features, dtype=dtype), self.center, self.inverse_scale),
            sigma=self.sigma.to(dtype),
            exact_sigma=self.sigma,
            train_start=torch.zeros(members, dtype=torch.int64),
            train_rows=torch.zeros(members, dtype=torch.int64),
            folds=(window,) * members,
            relative=self.config.data.returns == "percent",
            at_close=self.fill == "next_close",
        )


def with_pending_bar(market: MarketData) -> MarketData:
    """Adds a bar that has not happened yet, so that a walk decides at the last known close too.

    The bar stands still at the last close. No decision reads it; what it would return means nothing.
    """
    bars = market.bars
    last = bars.close[-1:]

    def longer(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, last])

    pending = Bars(
        timestamp=np.append(bars.timestamp, bars.timestamp[-1] + 1),
        open=longer(bars.open),
        high=longer(bars.high),
        low=longer(bars.low),
        close=longer(bars.close),
        volume=np.append(bars.volume, 0.0),
        findings=bars.findings,
        default_fill=bars.default_fill,
        returns=bars.returns,
    )
    return replace(market, bars=pending, features=np.concatenate([market.features, market.features[-1:]]))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
