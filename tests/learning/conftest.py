"""Small stacked trainings, straight on the learner: what the proofs of learning share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from trainer.backend import Backend
from trainer.bitflip_environment import BitFlipEnvironment, success_rate
from trainer.config import TrainerConfig
from trainer.evaluation import MarketEvaluation
from trainer.folds import Fold
from trainer.hyperparameters import Hyperparameters
from trainer.learner import Learner
from trainer.market_learner import build_market_learner
from trainer.market_tables import MarketTables
from trainer.members import Member, keys_of

FULL_SIZE = {"trunk_widths": (256, 256), "head_width": 128, "num_atoms": 51}


@pytest.fixture(
    params=["reference", pytest.param("fused", marks=pytest.mark.gpu)],
)
def backend(request) -> str:
    """Every proof holds on the reference; on a GPU also on the fused backend."""
    return request.param


@pytest.fixture
def proof_config(small_config, backend) -> Callable[..., TrainerConfig]:
    """Small networks on the reference, networks of full size on the fused backend."""
    sizes = FULL_SIZE if backend == "fused" else {}
    return lambda **overrides: small_config(**{**sizes, **overrides})


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

    def run(
        market, fold: Fold, configs: Sequence[TrainerConfig], steps: int, backend: str = "reference"
    ) -> MarketEvaluation:
        torch.set_num_threads(1)
        device = device_of(backend)
        configs = with_epochs(configs, steps)
        keys, hyper = keys_and_scalars(configs, device)
        tables = MarketTables.build(market, [fold] * len(configs), configs[0], torch.float32, device)
        chosen = Backend(backend, device, torch.float32, note="")
        learner = build_market_learner(chosen, configs[0], tables, hyper, keys)
        train(learner, configs[0])
        return learner.evaluate()

    return run


@pytest.fixture(scope="session")
def train_on_bits() -> Callable[..., list[float]]:
    """Trains one member per configuration on bit flipping; returns each member's greedy success rate."""

    def run(configs: Sequence[TrainerConfig], steps: int, backend: str = "reference") -> list[float]:
        torch.set_num_threads(1)
        device = device_of(backend)
        configs = with_epochs(configs, steps)
        keys, hyper = keys_and_scalars(configs, device)
        lanes, length = configs[0].environment.episodes, configs[0].environment.episode_length
        environment = BitFlipEnvironment(keys, lanes, bits=8, lane_length=length, device=device)
        learner = learner_of(backend, environment, configs[0], hyper, keys)
        train(learner, configs[0])
        return success_rate(environment, learner.agent.greedy, episodes=200)

    return run


def device_of(backend: str) -> torch.device:
    return torch.device("cuda" if backend == "fused" else "cpu")


def learner_of(backend, environment, config, hyper, keys):
    if backend == "fused":
        from trainer.fused.learner import FusedLearner

        return FusedLearner(environment, config, hyper, keys, keys.device)
    return Learner(environment, config, hyper, keys, torch.float32, keys.device)


def with_epochs(configs: Sequence[TrainerConfig], steps: int) -> list[TrainerConfig]:
    epochs = steps // configs[0].training.updates
    return [config.with_overrides({"epochs": epochs}) for config in configs]


def keys_and_scalars(
    configs: Sequence[TrainerConfig], device: torch.device
) -> tuple[Tensor, Hyperparameters]:
    keys = keys_of([Member(config.training.seed, 0) for config in configs], device)
    return keys, Hyperparameters.stack(configs, torch.float32, device)


def train(learner, config: TrainerConfig) -> None:
    for _ in range(config.training.epochs):
        learner.collect()
        learner.learn(config.training.updates)
