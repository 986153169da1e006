"""Collection alone at M x E = 16,384 lanes, policy included: the fused kernels, the reference, plain PyTorch.

A collection is E lanes of 64 bars per member with the default networks: the sampled policy, the float32
ledger, the differential Sharpe ratio, and the transitions stored in the rings, by the wall clock. The
reference is the trainer's own environment and agent on the same GPU. Plain PyTorch is the eager loop of
:mod:`trainer.benchmarks.peer_torch_trial`, vectorised over the E lanes of one member: members come after each
other, so that its rate is that of one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer.benchmarks.markdown import markdown_table
from trainer.benchmarks.peer_torch_trial import PeerTrial
from trainer.benchmarks.timing import wall_seconds
from trainer.benchmarks.whole_trial import hourly_market
from trainer.config import TrainerConfig
from trainer.data.market_data import MarketData
from trainer.folds import Fold, split
from trainer.fused.market_learner import FusedMarketLearner
from trainer.fused.precision import Precision, matmul_precision
from trainer.hyperparameters import Hyperparameters
from trainer.market_learner import MarketLearner, ReferenceMarketLearner
from trainer.market_tables import MarketTables
from trainer.members import keys_of, members_of

STACKS = ((1, 16_384), (16, 1024), (64, 256))  # members, lanes of each
LENGTH = 64
PRECISIONS: tuple[Precision, ...] = ("bf16", "fp32")
SLOW_REPEATS = 3
HEAD = (
    "members",
    "lanes of each",
    *(f"fused {name}, M steps/s" for name in PRECISIONS),
    "reference fp32, M steps/s",
    "plain PyTorch tf32, M steps/s",
)


@dataclass(frozen=True)
class CollectionRates:
    """Environment steps a second of all members together."""

    fused: tuple[float, ...]  # one for each of PRECISIONS
    reference: float
    plain: float

    def cells(self) -> list[str]:
        """Millions, with three digits."""
        return [f"{rate / 1e6:.3g}" for rate in (*self.fused, self.reference, self.plain)]


@dataclass(frozen=True)
class Stack:
    """What a learner is built from: members on one fold, their seeds apart."""

    config: TrainerConfig
    market: MarketData
    fold: Fold
    device: torch.device

    @classmethod
    def of(
        cls, market: MarketData, members: int, lanes: int, precision: Precision, device: torch.device
    ) -> Stack:
        """M members with E lanes each, whose rings hold one collection."""
        config = TrainerConfig().with_overrides(
            {
                "folds": 1,
                "min_folds": 1,
                "seeds": members,
                "episodes": lanes,
                "episode_length": LENGTH,
                "capacity": lanes * LENGTH,
                "precision": precision,
            }
        )
        return cls(config, market, split(len(market.bars), config.walk_forward).folds[0], device)

    @property
    def steps(self) -> int:
        """Environment steps of one collection of all members."""
        return self.config.training.seeds * self.config.environment.episodes * LENGTH

    def learner(self, *, fused: bool) -> MarketLearner:
        """The fused or the reference learner; both float32."""
        config, device = self.config, self.device
        members = members_of(config, 1)
        tables = MarketTables.build(self.market, [self.fold] * len(members), config, torch.float32, device)
        hyper = Hyperparameters.stack([config] * len(members), torch.float32, device)
        keys = keys_of(members, device)
        if fused:
            return FusedMarketLearner(config, tables, hyper, keys, device)
        return ReferenceMarketLearner(config, tables, hyper, keys, torch.float32, device)


def fused_rate(stack: Stack) -> float:
    """Of the captured kernels."""
    return stack.steps / wall_seconds(stack.learner(fused=True).collect)


def reference_rate(stack: Stack) -> float:
    """Of the trainer's environment and agent in eager PyTorch."""
    return stack.steps / wall_seconds(stack.learner(fused=False).collect, SLOW_REPEATS)


def plain_rate(stack: Stack) -> float:
    """Of plain PyTorch, one member after another: E L steps in the time of one member's collection."""
    trial = PeerTrial(stack.config, stack.market, stack.fold, stack.device, compiled=False)
    seconds = wall_seconds(trial.collect, SLOW_REPEATS)
    return stack.config.environment.episodes * LENGTH / seconds


def measure(market: MarketData, members: int, lanes: int) -> CollectionRates:
    """Times one stack on the GPU."""
    device = torch.device("cuda")
    rates = []
    for precision in PRECISIONS:
        rates.append(fused_rate(Stack.of(market, members, lanes, precision, device)))
        torch.cuda.empty_cache()
    stack = Stack.of(market, members, lanes, "fp32", device)
    reference = reference_rate(stack)
    with matmul_precision("tf32"):
        plain = plain_rate(stack)
    torch.cuda.empty_cache()
    return CollectionRates(tuple(rates), reference, plain)


def table() -> str:
    """Measures every stack."""
    market = hourly_market()
    rows = [
        [str(members), f"{lanes:,}", *measure(market, members, lanes).cells()] for members, lanes in STACKS
    ]
    return markdown_table(HEAD, rows)
