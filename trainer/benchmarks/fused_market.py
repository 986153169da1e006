"""Collection and greedy evaluation of the fused backend, end to end by the wall clock."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer.benchmarks.markdown import markdown_table
from trainer.benchmarks.timing import wall_seconds
from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.data.market_data import MarketData
from trainer.folds import split
from trainer.fused.market_learner import FusedMarketLearner
from trainer.hyperparameters import Hyperparameters
from trainer.market_tables import MarketTables
from trainer.members import keys_of, members_of

MARKET = "synthetic:known_answer:4000:1"
STACKS = ((1, 1), (5, 3), (5, 12))  # folds, seeds
LANES, LENGTH = 64, 128


@dataclass(frozen=True)
class MarketRate:
    """One row of the table.

    Attributes:
        members: M, height of the stack.
        transitions: Collected by one collection of all members.
        collect_seconds: Of one collection.
        bars: Test bars walked by one evaluation of all members.
        evaluate_seconds: Of one evaluation, its results read back.
    """

    members: int
    transitions: int
    collect_seconds: float
    bars: int
    evaluate_seconds: float


def configuration(folds: int, seeds: int) -> TrainerConfig:
    """The default networks, 64 lanes of 128 transitions."""
    return TrainerConfig().with_overrides(
        {
            "data.path": MARKET,
            "folds": folds,
            "min_folds": 1,
            "seeds": seeds,
            "episodes": LANES,
            "episode_length": LENGTH,
            "capacity": 2 * LANES * LENGTH,
        }
    )


def measure(market: MarketData, folds: int, seeds: int) -> MarketRate:
    """Times one stack."""
    config, device = configuration(folds, seeds), torch.device("cuda")
    cut = split(len(market.bars), config.walk_forward)
    members = members_of(config, folds)
    windows = [cut.folds[member.fold] for member in members]
    tables = MarketTables.build(market, windows, config, torch.float32, device)
    hyper = Hyperparameters.stack([config] * len(members), torch.float32, device)
    learner = FusedMarketLearner(config, tables, hyper, keys_of(members, device), device)
    return MarketRate(
        members=len(members),
        transitions=len(members) * LANES * LENGTH,
        collect_seconds=wall_seconds(learner.collect),
        bars=sum(len(member.bars) for member in learner.evaluate().members),
        evaluate_seconds=wall_seconds(learner.evaluate),
    )


def table() -> str:
    """Measures every stack."""
    market = load_market(configuration(1, 1))
    rows = []
    for folds, seeds in STACKS:
        rate = measure(market, folds, seeds)
        rows.append(
            [
                str(rate.members),
                f"{1e3 * rate.collect_seconds:.2f}",
                f"{rate.transitions / rate.collect_seconds:,.0f}",
                f"{1e3 * rate.evaluate_seconds:.2f}",
                f"{rate.bars / rate.evaluate_seconds:,.0f}",
            ]
        )
        torch.cuda.empty_cache()
    return markdown_table(
        ["members", "ms per collection", "transitions/s", "ms per evaluation", "bars/s"], rows
    )
