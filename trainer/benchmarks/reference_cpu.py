"""Gradient steps per second of the reference on the CPU, for stacks of several heights.

A member-step is one gradient step of one member: sample, relabel, learn, write priorities. The table
shows the median over blocks of steps, because the first block also warms caches. Seconds are CPU seconds
of the process, which has one thread: what else runs on the machine disturbs them little.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from trainer.benchmarks.markdown import markdown_table
from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.data.market_data import MarketData
from trainer.training import Training

MARKET = "synthetic:known_answer:4000:1"
STACKS = (1, 4, 16)
BLOCKS = 5


@dataclass(frozen=True)
class Rate:
    """One row of the table.

    Attributes:
        members: M, height of the stack.
        batch_size: B.
        step_seconds: Median CPU time of one step of the whole stack.
    """

    members: int
    batch_size: int
    step_seconds: float

    @property
    def member_steps(self) -> float:
        """Member-steps per second."""
        return self.members / self.step_seconds


def configuration(members: int, batch_size: int) -> TrainerConfig:
    """One fold and ``members`` seeds with the default networks; one intra-op thread."""
    return TrainerConfig().with_overrides(
        {
            "data.path": MARKET,
            "folds": 1,
            "min_folds": 1,
            "seeds": members,
            "batch_size": batch_size,
            "her_ratio": 0.5,
            "episodes": 16,
            "capacity": 8192,
            "backend": "reference",
            "device": "cpu",
        }
    )


def measure(market: MarketData, members: int, batch_size: int = 256, steps: int = 8) -> Rate:
    """Times ``BLOCKS`` blocks of ``steps`` gradient steps after one collection."""
    with tempfile.TemporaryDirectory() as folder:
        training = Training(configuration(members, batch_size), market, Path(folder))
        training.learner.collect()
        seconds: list[float] = []
        for _ in range(BLOCKS):
            started = time.process_time()
            training.learner.learn(steps)
            seconds.append((time.process_time() - started) / steps)
        training.close()
    return Rate(members, batch_size, statistics.median(seconds))


def table() -> str:
    """Measures every stack."""
    market = load_market(configuration(1, 256))
    rates = [measure(market, members) for members in STACKS]
    return markdown_table(
        ["members", "batch", "ms per step", "member-steps/s"],
        [
            [
                str(rate.members),
                str(rate.batch_size),
                f"{1e3 * rate.step_seconds:.1f}",
                f"{rate.member_steps:.0f}",
            ]
            for rate in rates
        ],
    )
