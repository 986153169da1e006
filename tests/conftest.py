"""Random markets, made as tables, for the tests that let both backends trade the same bars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from trainer.config import TrainerConfig
from trainer.folds import Fold
from trainer.hyperparameters import Hyperparameters
from trainer.layout import FeatureTable, StateLayout
from trainer.market_environment import MarketEnvironment, market_layout
from trainer.market_tables import BarTable, MarketTables

CPU = torch.device("cpu")
BARS = 90


@dataclass(frozen=True)
class MarketCase:
    """A stack on a random market, on some device."""

    config: TrainerConfig
    tables: MarketTables
    hyper: Hyperparameters
    keys: Tensor

    @property
    def layout(self) -> StateLayout:
        """Of the states."""
        return market_layout(self.config, self.tables.table.features.shape[1])

    def environment(self) -> MarketEnvironment:
        """The reference's lanes, float32, at environment step 0."""
        device = self.keys.device
        return MarketEnvironment(self.tables, self.config, self.hyper, self.keys, torch.float32, device)

    def actions(self, steps: int, lanes: int, seed: int) -> Tensor:
        """Random actions [steps, M, lanes, K] int64, on the CPU."""
        generator = torch.Generator().manual_seed(seed)
        shape = (steps, self.tables.members, lanes)
        return torch.stack(
            [torch.randint(n, shape, generator=generator) for n in self.layout.actions_per_branch], -1
        )

    def on(self, device: torch.device) -> MarketCase:
        """Returns a copy that lives on ``device``."""
        tables = self.tables

        def bars(table: BarTable) -> BarTable:
            return BarTable(
                table.moves.to(device),
                table.notional if table.notional is None else table.notional.to(device),
            )

        table = FeatureTable(
            *(
                each.to(device)
                for each in (tables.table.features, tables.table.center, tables.table.inverse_scale)
            )
        )
        moved = MarketTables(
            bars=bars(tables.bars),
            exact_bars=bars(tables.exact_bars),
            table=table,
            sigma=tables.sigma.to(device),
            exact_sigma=tables.exact_sigma.to(device),
            train_start=tables.train_start.to(device),
            train_rows=tables.train_rows.to(device),
            folds=tables.folds,
            relative=tables.relative,
            at_close=tables.at_close,
        )
        hyper = Hyperparameters(**{name: value.to(device) for name, value in vars(self.hyper).items()})
        return MarketCase(self.config, moved, hyper, self.keys.to(device))


def random_bars(relative: bool, wild: bool, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
    """Moves [BARS - 1, 4] and notionals; a fifth of the opens equal the last close, some bars stand still."""
    deviation = 0.6 if wild else 0.01
    count = BARS - 1

    def normal() -> Tensor:
        return torch.randn(count, generator=generator, dtype=torch.float64) * deviation

    open_, close, above, below = normal() / 3, normal(), normal().abs() / 3, normal().abs() / 3
    open_[torch.rand(count, generator=generator) < 0.2] = 0.0
    above[torch.rand(count, generator=generator) < 0.3] = 0.0
    below[torch.rand(count, generator=generator) < 0.3] = 0.0
    still = torch.rand(count, generator=generator) < 0.1
    high, low = torch.maximum(open_, close) + above, torch.minimum(open_, close) - below
    moves = torch.stack([open_, high, low, close], -1)
    moves[still] = 0.0
    if relative:
        return moves.exp() - 1, None
    return moves, torch.rand(count, generator=generator, dtype=torch.float64) * 1.5


@pytest.fixture(scope="session")
def make_market_case() -> Callable[..., MarketCase]:
    """Builds a stack on the CPU; members differ in window, costs, rate and kind of reward.

    With ``wild``, prices leap so far that positions go bankrupt often.
    """

    def build(
        members: int = 3,
        table_dim: int = 5,
        *,
        wild: bool = False,
        at_close: bool = False,
        seed: int = 0,
        **overrides: object,
    ) -> MarketCase:
        config = TrainerConfig().with_overrides({"episodes": 5, "episode_length": 12, **overrides})
        relative = config.data.returns == "percent"
        generator = torch.Generator().manual_seed(seed)
        moves, notional = random_bars(relative, wild, generator)
        folds = tuple(Fold(3 * m, 40 + 2 * m, 45 + 2 * m, BARS - 7 * (m % 4)) for m in range(members))
        sigma = torch.stack([moves[fold.train_start : fold.train_stop - 1, 3].std() for fold in folds])

        def bars(dtype: torch.dtype) -> BarTable:
            return BarTable(moves.to(dtype), None if notional is None else notional.to(dtype))

        tables = MarketTables(
            bars=bars(torch.float32),
            exact_bars=bars(torch.float64),
            table=FeatureTable(
                6 * torch.randn(BARS, table_dim, generator=generator),
                torch.randn(members, table_dim, generator=generator),
                torch.exp(torch.randn(members, table_dim, generator=generator)),
            ),
            sigma=sigma.float(),
            exact_sigma=sigma,
            train_start=torch.tensor([fold.train_start for fold in folds]),
            train_rows=torch.tensor([fold.train_stop - fold.train_start for fold in folds]),
            folds=folds,
            relative=relative,
            at_close=at_close,
        )
        configs = [
            config.with_overrides(
                {
                    "fee_bp": 5.0 * (m % 3),
                    "half_spread_bp": 1.5 * (m % 4),
                    "impact": 0.5 * (m % 2),
                    "adaptation_rate": (0.005, 0.2, 0.9)[m % 3],
                    "reward": ("dsr", "return")[m % 2],
                    "per_alpha": 0.2 * (m % 5),
                }
            )
            for m in range(members)
        ]
        hyper = Hyperparameters.stack(configs, torch.float32, CPU)
        keys = torch.tensor([[3 + m // 2, m % 2] for m in range(members)])
        return MarketCase(config, tables, hyper, keys)

    return build
