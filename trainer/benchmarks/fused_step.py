"""The fused gradient step in microseconds per step of the whole stack, next to its peers' on the same GPU."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from trainer.benchmarks import step_shapes as shapes
from trainer.benchmarks.markdown import markdown_table
from trainer.benchmarks.peers import PeerKey
from trainer.benchmarks.timing import microseconds
from trainer.config import TrainerConfig
from trainer.fused.agent import FusedAgent
from trainer.fused.replay import FusedReplay
from trainer.fused.step_buffers import StepBuffers
from trainer.graph import GraphedCallable
from trainer.hyperparameters import Hyperparameters
from trainer.layout import FeatureTable, StateLayout
from trainer.members import Member, keys_of
from trainer.replay import ReplayBuffer
from trainer.transitions import Collection

PRECISIONS = ("bf16", "tf32", "fp32")
GOAL_DIM, AGENT_DIM = 1, 6
PREFIX = 2 * GOAL_DIM + AGENT_DIM
FEATURES = shapes.STATE_DIM - PREFIX
LAYOUT = StateLayout(GOAL_DIM, PREFIX, FEATURES, GOAL_DIM, shapes.ACTIONS_PER_BRANCH)
BARS = 10_000


def configuration(shape: shapes.Shape, precision: str, *, use_iql: bool = True) -> TrainerConfig:
    """The peers' shapes and scalars; without IQL the targets are those of Double DQN."""
    return TrainerConfig().with_overrides(
        {
            "actions_per_branch": shapes.ACTIONS_PER_BRANCH,
            "batch_size": shape.batch_size,
            "capacity": shape.capacity,
            "episode_length": shapes.EPISODE,
            "episodes": 1024 if shape.capacity == 2**17 else 256,
            "her_ratio": shapes.HER_RATIO,
            "v_min": shapes.V_MIN,
            "v_max": shapes.V_MAX,
            "gamma": shapes.GAMMA,
            "precision": precision,
            "use_iql": use_iql,
        }
    )


class FusedStep:
    """One stack with a full replay of random transitions, ready to step."""

    def __init__(self, shape: shapes.Shape, precision: str, *, use_iql: bool = True) -> None:
        device = torch.device("cuda")
        config = configuration(shape, precision, use_iql=use_iql)
        self.layout = LAYOUT
        self.keys = keys_of([Member(seed, 0) for seed in range(shape.members)], device)
        self.hyper = Hyperparameters.stack([config] * shape.members, torch.float32, device)
        table = FeatureTable(
            torch.randn(BARS, FEATURES, device=device),
            torch.zeros(shape.members, FEATURES, device=device),
            torch.ones(shape.members, FEATURES, device=device),
        )
        replay = ReplayBuffer(shape.members, shape.capacity, self.layout, torch.float32, device)
        self.replay = FusedReplay(replay, table)
        self.agent = FusedAgent(config, self.layout, self.hyper, self.keys, device, config.training.precision)
        self.buffers = StepBuffers.allocate(
            shape.members, shape.batch_size, self.layout, self.agent.act_dtype, device
        )
        self.updated = torch.zeros((), dtype=torch.int64, device=device)
        self.replay.insert(self._random(shape, config, device), self.hyper)
        replay.priority.copy_(torch.rand_like(replay.priority) + 0.1)

    def _random(self, shape: shapes.Shape, config: TrainerConfig, device: torch.device) -> Collection:
        lanes, length = config.environment.episodes, config.environment.episode_length
        filled = Collection.allocate(shape.members, lanes, length, self.layout, torch.float32, device)
        filled.prefix.normal_()
        filled.next_prefix.normal_()
        filled.reward.normal_(std=0.1)
        filled.row.random_(0, BARS - 1)
        filled.action.random_(0, 3)
        filled.terminated.bernoulli_(0.01)
        filled.episode_stop.fill_(length)
        return filled

    def step(self) -> None:
        """One gradient step: sample, relabel, learn, write priorities."""
        self.replay.sample_into(self.buffers, self.updated, self.keys, self.hyper)
        self.agent.update(self.buffers)
        self.replay.write_priorities(self.buffers, self.hyper)
        self.updated += 1


STEPS_PER_GRAPH = TrainerConfig().training.steps_per_replay


def replay_of(step: Callable[[], None]) -> Callable[[], None]:
    """Captures ``STEPS_PER_GRAPH`` steps, as many as a training's, and returns their replay."""

    def steps() -> None:
        for _ in range(STEPS_PER_GRAPH):
            step()

    return GraphedCallable(steps, lambda: None).replay


def measure(shape: shapes.Shape, precision: str) -> float:
    """Median microseconds of one step, replayed from a graph of as many as a training's."""
    return microseconds(replay_of(FusedStep(shape, precision).step)) / STEPS_PER_GRAPH


def table(peers: dict[PeerKey, float]) -> str:
    """Measures every shape and precision.

    Args:
        peers: Microseconds of the peers' steps; empty leaves their columns out.
    """
    names = sorted({name for name, _, _ in peers})
    head = ["M, B", *(f"{name}, us" for name in PRECISIONS), *(f"{name} (peer), us" for name in names)]
    rows = []
    for shape in shapes.SHAPES:
        size = shape.members, shape.batch_size
        times = [measure(shape, precision) for precision in PRECISIONS]
        times += [peers.get((name, *size), math.nan) for name in names]
        best = min((time for time in times[len(PRECISIONS) :] if not math.isnan(time)), default=math.nan)
        cells = [f"{size[0]}, {size[1]}", *(f"{time:.0f}" for time in times)]
        rows.append([*cells, f"{best / times[0]:.1f}"] if peers else cells)
        torch.cuda.empty_cache()
    return markdown_table([*head, "fastest peer / bf16"] if peers else head, rows)
