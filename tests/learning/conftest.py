"""Small stacked trainings, straight on the learner: what the proofs of learning share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from trainer.bitflip_environment import BitFlipEnvironment, success_rate
from trainer.config import TrainerConfig
from trainer.evaluation import MarketEvaluation, evaluate
from trainer.folds import Fold
from trainer.hyperparameters import Hyperparameters
from trainer.learner import Learner
from trainer.market_environment import MarketEnvironment
from trainer.market_tables import MarketTables
from trainer.members import Member, keys_of

CPU = torch.device("cpu")


@pytest.fixture(scope="session")
def small_config() -> Callable[..., TrainerConfig]:
    """Builds the configuration of the proofs; keywords replace keys by their short names."""
    base = TrainerConfig.build({}).with_overrides(
        {
            "trunk_widths": (64, 64),
            "head_width": 32,
            "num_atoms": 21,
            "learning_rate": 1e-3,
            "batch_size": 256,
            "gamma": 0.95,
            "iql_expectile_tau": 0.7,
            "iql_advantage_temperature": 10.0,
            "polyak_tau": 0.005,
            "episodes": 32,
            "episode_length": 64,
            "updates": 50,
            "capacity": 2**15,
            "actions_per_branch": (5,),
            "fill": "next_open",
            "fee_bp": 0.0,
            "half_spread_bp": 0.0,
        }
    )
    return lambda **overrides: base.with_overrides(overrides)


@pytest.fixture(scope="session")
def train_on_market() -> Callable[..., MarketEvaluation]:
    """Trains one member per configuration on one fold, then walks its test window greedily."""

    def run(market, fold: Fold, configs: Sequence[TrainerConfig], steps: int) -> MarketEvaluation:
        torch.set_num_threads(1)
        updates = configs[0].training.updates
        epochs = steps // updates
        configs = [config.with_overrides({"epochs": epochs}) for config in configs]
        keys, hyper = _keys_and_scalars(configs)
        tables = MarketTables.build(market, [fold] * len(configs), configs[0], torch.float32, CPU)
        environment = MarketEnvironment(tables, configs[0], hyper, keys, torch.float32, CPU)
        learner = Learner(environment, configs[0], hyper, keys, torch.float32, CPU)
        _train(learner, epochs)
        return evaluate(tables, hyper, configs[0], learner.agent.greedy)

    return run


@pytest.fixture(scope="session")
def train_on_bits() -> Callable[..., list[float]]:
    """Trains one member per configuration on bit flipping; returns each member's greedy success rate."""

    def run(configs: Sequence[TrainerConfig], steps: int, episodes: int = 200) -> list[float]:
        torch.set_num_threads(1)
        epochs = steps // configs[0].training.updates
        configs = [config.with_overrides({"epochs": epochs}) for config in configs]
        keys, hyper = _keys_and_scalars(configs)
        lanes, length = configs[0].environment.episodes, configs[0].environment.episode_length
        environment = BitFlipEnvironment(keys, lanes, bits=8, lane_length=length)
        learner = Learner(environment, configs[0], hyper, keys, torch.float32, CPU)
        _train(learner, epochs)
        return success_rate(environment, learner.agent.greedy, episodes)

    return run


def _keys_and_scalars(configs: Sequence[TrainerConfig]) -> tuple[Tensor, Hyperparameters]:
    keys = keys_of([Member(config.training.seed, 0) for config in configs], CPU)
    return keys, Hyperparameters.stack(configs, torch.float32, CPU)


def _train(learner: Learner, epochs: int) -> None:
    for _ in range(epochs):
        learner.collect()
        learner.learn(learner.config.training.updates)
