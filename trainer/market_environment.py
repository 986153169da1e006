"""MarketEnvironment: trading one instrument over random stretches of each member's training window."""

from __future__ import annotations

from statistics import NormalDist

import torch
from torch import Tensor

from trainer.config import TrainerConfig
from trainer.environment import Environment, Observation, StepResult, step_counter
from trainer.hyperparameters import Hyperparameters
from trainer.layout import StateLayout
from trainer.market_tables import MarketTables
from trainer.reference.agent_state import (
    AGENT_COLUMNS,
    Episode,
    advance_episode,
    fresh_episode,
    observe,
)
from trainer.reference.differential_sharpe import bar_reward, differential_sharpe, variance_floor
from trainer.reference.fills import OrderBook
from trainer.reference.ledger import Account, Costs, trade
from trainer.reference.philox import Purpose, draw, integer

GOAL_DIM = 1
GOAL_QUANTILES = 4096  # midpoints of equal shares of N(0, 1)
ACCOUNT_FIELDS = len(Account._fields)


def market_layout(config: TrainerConfig, table_dim: int) -> StateLayout:
    """Returns the layout [desired goal | achieved goal | agent 6 | market ``table_dim``]."""
    offset = config.hindsight.achieved_offset
    return StateLayout(
        goal_dim=GOAL_DIM,
        prefix_dim=2 * GOAL_DIM + AGENT_COLUMNS,
        table_dim=table_dim,
        achieved_offset=GOAL_DIM if offset is None else offset,
        actions_per_branch=config.environment.actions_per_branch,
    )


def goal_table(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns [4096] quantiles of N(0, 1), made on the host so that every device draws the same goals."""
    normal = NormalDist()
    quantiles = [normal.inv_cdf((index + 0.5) / GOAL_QUANTILES) for index in range(GOAL_QUANTILES)]
    return torch.tensor(quantiles, dtype=dtype, device=device)


def compose_prefix(desired: Tensor, observed: Tensor, layout: StateLayout) -> Tensor:
    """Joins the desired goal [M, E] and :func:`observe`'s columns [M, E, 7] to a prefix [M, E, 8].

    With ``achieved_offset`` 0 the goal slot itself holds the achieved value.
    """
    goal = observed[..., :GOAL_DIM] if layout.achieved_offset == 0 else desired.unsqueeze(-1)
    return torch.cat([goal, observed], dim=-1)


class MarketEnvironment(Environment):
    """Lanes of L bars inside each member's training window.

    Args:
        tables: Bars, features and windows of the members.
        config: Shape keys: branches, E, L.
        hyper: Costs, adaptation rate and kind of reward per member, read at every step.
        keys: [M, 2] int64 Philox keys.
        dtype: Floating type of the tables.
        device: Where everything lives.
    """

    def __init__(
        self,
        tables: MarketTables,
        config: TrainerConfig,
        hyper: Hyperparameters,
        keys: Tensor,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.table = tables.table
        self.layout = market_layout(config, tables.table.features.shape[1])
        self.members = tables.members
        self.lanes = config.environment.episodes
        self.lane_length = config.environment.episode_length
        self.steps = step_counter(device)
        self._tables, self._hyper, self._keys = tables, hyper, keys
        self._orders = OrderBook(config.environment.actions_per_branch, dtype, device)
        self._sigma = tables.sigma[:, None]
        self._floor = variance_floor(self._sigma)
        self._goal_table = goal_table(dtype, device)
        self._allocate(dtype, device)

    def _allocate(self, dtype: torch.dtype, device: torch.device) -> None:
        lanes = (self.members, self.lanes)
        zero = torch.zeros(lanes, dtype=dtype, device=device)
        account = Account(position=zero, entry=zero, equity=zero + 1)
        episode = fresh_episode(account.equity, self._sigma)
        # Account and episode of every lane in one tensor, so that a restart is one selection.
        self._fresh = torch.stack([*account, *episode])  # [8, M, E]
        self._fresh_observed = self._observe(account, episode)
        self._lane = self._fresh.clone()
        self._goal = zero.clone()
        self._row = torch.zeros(lanes, dtype=torch.int64, device=device)
        self._prefix = torch.zeros(*lanes, self.layout.prefix_dim, dtype=dtype, device=device)
        self._next_prefix = torch.zeros_like(self._prefix)
        self._reward = zero.clone()
        self._terminated = torch.zeros(lanes, dtype=torch.bool, device=device)
        starts = (self.members, self.lane_length + 1, self.lanes)
        self._starts = torch.zeros(starts, dtype=torch.int64, device=device)
        self._goals = torch.zeros(starts, dtype=dtype, device=device)

    def begin_lanes(self) -> None:
        """Draws starts and goals for the lane and for any restart inside it, and resets every lane."""
        self._draw_starts()
        self._lane.copy_(self._fresh)
        self._row.copy_(self._starts[:, 0])
        self._goal.copy_(self._goals[:, 0])
        self._prefix.copy_(compose_prefix(self._goal, self._fresh_observed, self.layout))

    def reset(self) -> None:
        """Goes back to step 0 and to the lanes of a new environment, in place."""
        super().reset()
        self._lane.copy_(self._fresh)

    def _draw_starts(self) -> None:
        """Draws for all positions at once: entry j serves an episode that starts after j steps.

        Such an episode still runs L - j bars, so it may start at any row of the training window but the
        last L - j. Drawing per step would cost more than the step itself.
        """
        positions = torch.arange(self.lane_length + 1, device=self.steps.device)
        lanes = torch.arange(self.lanes, device=self.steps.device).repeat(self.lane_length + 1)
        when = self.steps + positions.repeat_interleave(self.lanes)
        rows = self._tables.train_rows[:, None] - (self.lane_length - positions)  # [M, L + 1]
        word = draw(self._keys, Purpose.EPISODE_START, when, lanes)[..., 0].view_as(self._starts)
        first = self._tables.train_start[:, None, None]
        self._starts.copy_(first + integer(word, rows[:, :, None]))
        word = draw(self._keys, Purpose.GOAL, when, lanes)[..., 0].view_as(self._starts)
        self._goals.copy_(self._goal_table[integer(word, GOAL_QUANTILES)])

    def observation(self) -> Observation:
        """Returns goal, agent part and bar of every lane."""
        return Observation(self._prefix, self._row)

    def step(self, action: Tensor, position: int) -> StepResult:
        """Trades one bar in every lane; a bankrupt lane starts anew at a fresh random row."""
        hyper = self._hyper
        account, episode = self._account(), self._episode()
        bar, notional = self._tables.bars.at(self._row)
        costs = Costs(
            hyper.maker_cost[:, None], hyper.taker_cost[:, None], hyper.impact[:, None] * self._sigma
        )
        order = self._orders.decode(action)
        settled = trade(account, order, bar, notional, costs, at_close=self._tables.at_close)
        sharpe = differential_sharpe(
            episode.first_moment,
            episode.variance,
            settled.bar_return,
            hyper.adaptation_rate[:, None],
            self._floor,
        )
        after = advance_episode(episode, account.position, settled.account.position, sharpe)
        self._reward.copy_(
            bar_reward(sharpe.value, settled.bar_return, self._sigma, hyper.reward_is_return[:, None])
        )
        self._terminated.copy_(settled.bankrupt)
        self._move_on(settled.account, after, position)
        self.steps += 1
        return StepResult(self._next_prefix, self._reward, self._terminated)

    def _move_on(self, account: Account, episode: Episode, position: int) -> None:
        """Writes the state that was reached, then the one that the next step starts from."""
        terminated, restart = self._terminated, position + 1
        observed = self._observe(account, episode)
        self._next_prefix.copy_(compose_prefix(self._goal, observed, self.layout))
        torch.where(terminated, self._fresh, torch.stack([*account, *episode]), out=self._lane)
        self._row.copy_(torch.where(terminated, self._starts[:, restart], self._row + 1))
        self._goal.copy_(torch.where(terminated, self._goals[:, restart], self._goal))
        observed = torch.where(terminated[..., None], self._fresh_observed, observed)
        self._prefix.copy_(compose_prefix(self._goal, observed, self.layout))

    def moments(self) -> tuple[float, float]:
        """Means of A and V over members and lanes, as the last step left them."""
        episode = self._episode()
        means = torch.stack([episode.first_moment.mean(), episode.variance.mean()]).tolist()
        return means[0], means[1]

    def _account(self) -> Account:
        return Account(*self._lane[:ACCOUNT_FIELDS])

    def _episode(self) -> Episode:
        return Episode(*self._lane[ACCOUNT_FIELDS:])

    def _observe(self, account: Account, episode: Episode) -> Tensor:
        relative = self._tables.relative
        return observe(account, episode, self._sigma, self._floor, self.lane_length, relative=relative)
