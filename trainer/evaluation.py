"""evaluate: the greedy walk of every member over its own test window, with the ledger in float64.

One ledger runs over the window from flat to the forced close at its end. Every L bars the episode
bookkeeping (achieved goal, A, V, progress, time in position) restarts as at a training reset, because
the networks have never seen anything older; position, entry and equity carry over at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.collector import Policy
from trainer.config import TrainerConfig
from trainer.hyperparameters import Hyperparameters
from trainer.layout import assemble
from trainer.market_environment import compose_prefix, market_layout
from trainer.market_tables import MarketTables
from trainer.members import Member
from trainer.reference.agent_state import Episode, advance_episode, fresh_episode, observe
from trainer.reference.differential_sharpe import differential_sharpe, variance_floor
from trainer.reference.fills import OrderBook
from trainer.reference.ledger import Account, Costs, Settlement, trade
from trainer.walk_forward import MemberOutcome

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MemberEvaluation:
    """One member's test window of n rows: n - 1 bars, fewer after a bankruptcy (the last is -1).

    Attributes:
        bars: [T] int64, row of the close that ends each return.
        returns: [T] net bar returns, 0.01 = 1 %.
        positions: [T] exposure held into that close; the forced close comes after the last.
        traded: [T] size of the change of position, the forced close not counted.
        costs: [T] costs paid as a fraction of equity, the forced close counted.
        impact: [T] the part of ``costs`` that the square-root impact took.
        buy_and_hold: [T] the same bars for a constant exposure of 1 without costs.
        close_returns: [n - 1] moves of the window's closes, whatever the policy did.
        trades: Bars with a change of position.
        turnover: Sum of changes of position, the forced close counted.
        bankrupt: Equity reached 0.
    """

    bars: NDArray[np.int64]
    returns: Floats
    positions: Floats
    traded: Floats
    costs: Floats
    impact: Floats
    buy_and_hold: Floats
    close_returns: Floats
    trades: int
    turnover: float
    bankrupt: bool


@dataclass(frozen=True)
class MarketEvaluation:
    """All members of a stack, in stack order."""

    members: tuple[MemberEvaluation, ...]

    def outcomes(self, members: Sequence[Member]) -> tuple[MemberOutcome, ...]:
        """Returns what the walk-forward score needs; ``members`` in stack order."""
        return tuple(
            MemberOutcome(
                seed=member.seed,
                fold=member.fold,
                returns=result.returns,
                close_returns=result.close_returns,
                trades=result.trades,
                turnover=result.turnover,
                bankrupt=result.bankrupt,
            )
            for member, result in zip(members, self.members, strict=True)
        )


def evaluate(
    tables: MarketTables, hyper: Hyperparameters, config: TrainerConfig, policy: Policy
) -> MarketEvaluation:
    """Walks all members through their test windows at once.

    Windows may differ in length: a member that is done stays on its last bar and is cut afterwards.

    Args:
        tables: Bars, features and windows of the members.
        hyper: Costs and adaptation rate per member.
        config: Branches, L and the desired goal (goal.eval).
        policy: Greedy policy, called with states [M, 1, S] in the tables' floating type.
    """
    walk = _Walk(tables, hyper, config)
    bars = max(fold.test_stop - fold.test_start for fold in tables.folds) - 1
    trace = Trace.allocate(tables.members, bars, tables.table.features.device)
    for bar in range(bars):
        if bar % walk.length == 0:
            walk.restart_episode()
        row = walk.row(bar)
        action = policy(assemble(walk.prefix(), tables.table, row))
        trace.write(bar, walk.step(action, row, bar))
    closes = tables.exact_bars.moves[:, 3].cpu().numpy()
    return MarketEvaluation(cut_to_windows(trace, tables, closes))


class _Walk:
    """One lane per member, in float64, over the test windows."""

    def __init__(self, tables: MarketTables, hyper: Hyperparameters, config: TrainerConfig) -> None:
        device, exact = tables.table.features.device, torch.float64
        self.length = config.environment.episode_length
        self._tables = tables
        self._dtype = tables.table.features.dtype
        self._layout = market_layout(config, tables.table.features.shape[1])
        self._orders = OrderBook(config.environment.actions_per_branch, exact, device)
        self._sigma = tables.exact_sigma[:, None]
        self._floor = variance_floor(self._sigma)
        self._costs = Costs(
            maker=hyper.maker_cost[:, None].to(exact),
            taker=hyper.taker_cost[:, None].to(exact),
            impact=hyper.impact[:, None].to(exact) * self._sigma,
        )
        self._rate = hyper.adaptation_rate[:, None].to(exact)
        self._first = torch.tensor([[fold.test_start] for fold in tables.folds], device=device)
        self._last = torch.tensor([[fold.test_stop - 2] for fold in tables.folds], device=device)
        self._desired = torch.full_like(self._sigma, config.goal.eval)
        flat = torch.zeros_like(self._sigma)
        self._account = Account(position=flat, entry=flat, equity=flat + 1)
        self._episode: Episode = fresh_episode(self._account.equity, self._sigma)

    def restart_episode(self) -> None:
        self._episode = fresh_episode(self._account.equity, self._sigma)

    def row(self, bar: int) -> Tensor:
        """Rows [M, 1] of the decision number ``bar``, no later than each window's last."""
        return torch.minimum(self._first + bar, self._last)

    def prefix(self) -> Tensor:
        relative = self._tables.relative
        observed = observe(
            self._account, self._episode, self._sigma, self._floor, self.length, relative=relative
        )
        return compose_prefix(self._desired, observed, self._layout).to(self._dtype)

    def step(self, action: Tensor, row: Tensor, bar: int) -> Settlement:
        before = self._account
        market_bar, notional = self._tables.exact_bars.at(row)
        closes = self._first + bar == self._last
        settled = trade(
            before,
            self._orders.decode(action),
            market_bar,
            notional,
            self._costs,
            at_close=self._tables.at_close,
            closing_cost=torch.where(closes, self._costs.taker, 0),
            closing_impact=None if self._costs.impact is None else torch.where(closes, self._costs.impact, 0),
        )
        moments = self._episode.first_moment, self._episode.variance
        sharpe = differential_sharpe(*moments, settled.bar_return, self._rate, self._floor)
        self._account = settled.account
        self._episode = advance_episode(self._episode, before.position, settled.account.position, sharpe)
        return settled


@dataclass(frozen=True)
class Trace:
    """What every bar gave, [M, T] float64; copied to the host once.

    Attributes:
        returns: Net bar returns.
        positions: Exposure held into the close.
        traded: Size of the change of position.
        costs: Costs paid as a fraction of equity.
        bankrupt: 1 where equity reached 0.
        pressure: The part of the costs that the impact took.
    """

    returns: Tensor
    positions: Tensor
    traded: Tensor
    costs: Tensor
    bankrupt: Tensor
    pressure: Tensor

    @classmethod
    def allocate(cls, members: int, bars: int, device: torch.device) -> Trace:
        """Allocates zeros."""
        shape = members, bars
        return cls(*(torch.zeros(shape, dtype=torch.float64, device=device) for _ in fields(cls)))

    def write(self, bar: int, settled: Settlement) -> None:
        """Notes one bar of all members."""
        self.returns[:, bar] = settled.bar_return[:, 0]
        self.positions[:, bar] = settled.account.position[:, 0]
        self.traded[:, bar] = settled.traded[:, 0]
        self.costs[:, bar] = settled.paid[:, 0]
        self.bankrupt[:, bar] = settled.bankrupt[:, 0].to(torch.float64)
        self.pressure[:, bar] = settled.pressure[:, 0]

    def numpy(self) -> list[Floats]:
        """Field by field, [M, T]."""
        return [getattr(self, field.name).cpu().numpy() for field in fields(self)]


def cut_to_windows(trace: Trace, tables: MarketTables, closes: Floats) -> tuple[MemberEvaluation, ...]:
    """Cuts every member to its own window, and to the bars up to a bankruptcy.

    Args:
        trace: Of all members over the longest window.
        tables: Windows of the members.
        closes: [N - 1] moves of the closes, on the host.
    """
    arrays = trace.numpy()
    results = []
    for member, fold in enumerate(tables.folds):
        window = closes[fold.test_start : fold.test_stop - 1]
        returns, positions, traded, costs, bankrupt, impact = (each[member, : window.size] for each in arrays)
        ruined = bool(bankrupt.any())
        size = int(bankrupt.argmax()) + 1 if ruined else window.size
        forced = 0.0 if ruined else float(abs(positions[size - 1]))
        results.append(
            MemberEvaluation(
                bars=np.arange(fold.test_start + 1, fold.test_start + 1 + size),
                returns=returns[:size].copy(),
                positions=positions[:size].copy(),
                traded=traded[:size].copy(),
                costs=costs[:size].copy(),
                impact=impact[:size].copy(),
                buy_and_hold=_buy_and_hold(window, relative=tables.relative)[:size],
                close_returns=window.copy(),
                trades=int(np.count_nonzero(traded[:size])),
                turnover=float(traded[:size].sum()) + forced,
                bankrupt=ruined,
            )
        )
    return tuple(results)


def _buy_and_hold(moves: Floats, *, relative: bool) -> Floats:
    """Returns bar returns of a constant exposure of 1 without costs; after a total loss they are 0."""
    if relative:
        return moves.copy()
    equity = np.concatenate([[1.0], 1.0 + np.cumsum(moves)])
    alive = np.minimum.accumulate(equity[:-1]) > 0
    growth = np.divide(moves, equity[:-1], out=np.zeros_like(moves), where=alive)
    clamped: Floats = np.maximum(growth, -1.0)
    return clamped
