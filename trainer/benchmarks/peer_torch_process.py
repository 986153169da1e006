"""Peer: a whole trial in a process of its own, as scripts without a search's machinery run them.

``python -m trainer.benchmarks.peer_torch_process CONFIG_JSON`` trains every member (a seed on a fold) in
plain PyTorch, one after another (:mod:`trainer.benchmarks.peer_torch_trial`), and prints one JSON line.
Eager: to compile the loss would take longer than so short a trial.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from dataclasses import dataclass

import torch

from trainer.benchmarks.peer_torch_trial import PeerTrial
from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.data.market_data import MarketData
from trainer.folds import split


@dataclass(frozen=True)
class PeerRun:
    """What a process tells.

    Attributes:
        members: Trained, one after another.
        bars: Walked over in all evaluations.
        steps: Gradient steps of all members.
        sharpe: Mean of the members' ratios per bar after the last epoch.
        seconds: From the loaded market to the last score; the process's start is not in it.
    """

    members: int
    bars: int
    steps: int
    sharpe: float
    seconds: float


def train(config: TrainerConfig, market: MarketData, device: torch.device) -> PeerRun:
    """Trains and evaluates all members of a trial: as many collections, steps and bars as the trainer's.

    Args:
        config: Shapes and scalars.
        market: Bars and features.
        device: Where every member trains.
    """
    started = time.perf_counter()
    folds = split(len(market.bars), config.walk_forward).folds
    training, sharpes, walked, steps = config.training, [], 0, 0
    for seed in range(training.seeds):
        for fold in folds:
            torch.manual_seed(training.seed + seed)
            trial = PeerTrial(config, market, fold, device, compiled=False)
            bars = fold.test_stop - fold.test_start - 1
            for _ in range(training.epochs):
                trial.collect()
                trial.learn(training.updates)
                returns = trial.evaluate(bars).double().cpu()
                walked, steps = walked + bars, steps + training.updates
            sharpes.append(float(returns.mean() / returns.std().clamp(min=1e-12)))
    mean = sum(sharpes) / len(sharpes)
    return PeerRun(len(sharpes), walked, steps, mean, time.perf_counter() - started)


def main() -> None:
    """Prints one JSON line."""
    config = TrainerConfig.build(json.loads(sys.argv[1]))
    torch.set_float32_matmul_precision("high")
    device = torch.device("cpu" if config.training.backend == "reference" else "cuda")
    print(json.dumps(dataclasses.asdict(train(config, load_market(config), device))), flush=True)


if __name__ == "__main__":
    main()
