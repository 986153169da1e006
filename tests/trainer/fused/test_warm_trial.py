"""The second trial of a study compiles nothing: hyperparameters are numbers in memory, not constants."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[3]
TRIAL = """
import sys
import torch
from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.folds import split
from trainer.fused.market_learner import FusedMarketLearner
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.loader import builder
from trainer.market_tables import MarketTables
from trainer.members import keys_of, members_of

SHAPES = {
    "data.path": "synthetic:known_answer:1200:2", "folds": 2, "min_folds": 1, "episodes": 8,
    "episode_length": 16, "capacity": 256, "batch_size": 32, "trunk_widths": "32x16", "head_width": 16,
}
FIRST = {"learning_rate": 1e-3, "gamma": 0.95, "iql_expectile_tau": 0.7, "iql_advantage_temperature": 3.0}
SECOND = {
    "learning_rate": 2e-4, "gamma": 0.9, "iql_expectile_tau": 0.85, "iql_advantage_temperature": 11.0,
    "her_ratio": 0.3, "her_strategy": "final", "per_alpha": 0.3, "polyak_tau": 0.02, "weight_decay": 0.0,
    "adaptation_rate": 0.05, "fee_bp": 7.0, "seed": 5,
}


def trial(choice):
    config = TrainerConfig.build().with_overrides({**SHAPES, **choice})
    device = torch.device("cuda")
    market = load_market(config)
    cut = split(len(market.bars), config.walk_forward)
    members = members_of(config, len(cut.folds))
    folds = [cut.folds[member.fold] for member in members]
    tables = MarketTables.build(market, folds, config, torch.float32, device)
    hyper = Hyperparameters.stack([config] * len(members), torch.float32, device)
    learner = FusedMarketLearner(config, tables, hyper, keys_of(members, device), device)
    learner.collect()
    learner.learn(9)
    learner.evaluate()
    return builder().compiled


print(*(trial({"first": FIRST, "second": SECOND}[name]) for name in sys.argv[1:]))
"""


def compiled(cache: Path, *trials: str) -> list[int]:
    """Runs trials one after the other in a process of their own; returns the kernels compiled so far."""
    told = subprocess.run(
        [sys.executable, "-c", TRIAL, *trials],
        cwd=ROOT,
        env={**os.environ, "CUPY_CACHE_DIR": str(cache)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return [int(count) for count in told.stdout.split()]


def test_a_trial_with_other_hyperparameters_compiles_nothing_in_this_process_or_the_next(tmp_path):
    first, second = compiled(tmp_path, "first", "second")
    assert first > 10
    assert second == first
    assert compiled(tmp_path, "second") == [0]
