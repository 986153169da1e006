"""A whole trial through :class:`trainer.training.Training`: where its wall time goes.

Five folds and three seeds, 20 epochs of 512 gradient steps at batch 256, half of it relabelled, default
networks, 50,000 hourly bars with the 48 features of a file. The clock runs from the construction of the
training, the market in memory, until weights and evaluation are written. A short training of the same shapes
comes before, so that kernels are compiled and loaded, as in a search's worker from its second trial on.

collect, train, evaluate
    Device time of the three phases: CUDA events are recorded on the training's stream before the first and
    after the last launch of a phase. Of the evaluation that is the walk over the bars, without the reading
    back and the cutting into windows. A capture of a graph that falls into a phase is taken out of it.
host
    Wall time less these three: set-up and captures, reading back and scoring, checkpoint, files, and every
    stretch in which the GPU waits for Python between phases. Gaps between kernels within a phase count as
    its device time. Set-up (construction and every capture) is told apart.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from trainer.benchmarks.markdown import markdown_table
from trainer.benchmarks.peers import peer_rows
from trainer.config import TrainerConfig
from trainer.data.features import FEATURE_NAMES, build_features
from trainer.data.market import load_market
from trainer.data.market_data import MarketData
from trainer.folds import split
from trainer.phases import clocked
from trainer.training import Training
from trainer.warm_learner import LearnerCache

BARS = 50_000
FOLDS, SEEDS, EPOCHS = 5, 3, 20
PRECISIONS = ("bf16", "tf32", "fp32")
HEAD = (
    "trial",
    "wall, s",
    "collect, s",
    "train, s",
    "evaluate, s",
    "host, s",
    "its set-up, s",
    "host share",
)
PARTS = {"collect": "collect", "learn": "train", "walk": "evaluate"}  # phase -> part
CAPTURE = "capture"
TITLE = f"## A whole trial: {FOLDS} folds x {SEEDS} seeds, {EPOCHS} epochs, {BARS:,} hourly bars"
MEANING = (
    "Collect, train and evaluate are device time by CUDA events around the phases; host is the wall time "
    "less these, set-up, captures, scoring and files included."
)
PEER_MEANING = (
    "Plain PyTorch trains one member after another (TF32, compiled loss, no CUDA graph); wall seconds of a "
    "share of one member's trial, scaled up linearly to all members and epochs."
)


@dataclass(frozen=True)
class TrialTime:
    """Seconds of one trial.

    Attributes:
        wall: From construction to the last file.
        collect: Device time.
        train: Device time.
        evaluate: Device time.
        setup: Construction of the training; part of ``host``.
        captures: Within phases, captures of graphs; part of ``host``.
    """

    wall: float
    collect: float
    train: float
    evaluate: float
    setup: float
    captures: float

    @property
    def host(self) -> float:
        """Seconds in which no phase kept the GPU busy."""
        return self.wall - self.collect - self.train - self.evaluate

    @property
    def host_share(self) -> float:
        """Of the wall time."""
        return self.host / self.wall


class DeviceClock:
    """Records CUDA events around phases; reads them once at the end, so that nothing waits for it."""

    def __init__(self) -> None:
        self._open: list[tuple[str, torch.cuda.Event]] = []
        self._spans: list[tuple[str, str, torch.cuda.Event, torch.cuda.Event]] = []

    def begin(self, name: str) -> None:
        """A phase begins; only those of ``PARTS`` and captures are of interest."""
        if name in PARTS or name == CAPTURE:
            self._open.append((name, _recorded()))

    def end(self, name: str) -> None:
        """A phase ends."""
        if name in PARTS or name == CAPTURE:
            began, start = self._open.pop()
            around = self._open[-1][0] if self._open else ""
            self._spans.append((began, around, start, _recorded()))

    def seconds(self) -> dict[str, float]:
        """Seconds per phase, without the captures in it; waits for the device."""
        torch.cuda.synchronize()
        spans = [(name, around, 1e-3 * start.elapsed_time(stop)) for name, around, start, stop in self._spans]
        return exclusive(spans)


def exclusive(spans: list[tuple[str, str, float]]) -> dict[str, float]:
    """Adds up spans by name; a span within another one counts for its own name alone.

    Args:
        spans: (name, name of the span around it or "", seconds).
    """
    total = dict.fromkeys((*PARTS, CAPTURE), 0.0)
    for name, around, seconds in spans:
        total[name] += seconds
        if around:
            total[around] -= seconds
    return total


def configuration(precision: str, *, epochs: int = EPOCHS) -> TrainerConfig:
    """The default networks and updates; ``precision`` of the products."""
    return TrainerConfig().with_overrides(
        {
            "data.path": f"synthetic:known_answer:{BARS}:1",
            "folds": FOLDS,
            "seeds": SEEDS,
            "epochs": epochs,
            "her_ratio": 0.5,
            "precision": precision,
        }
    )


def hourly_market() -> MarketData:
    """The synthetic hourly bars with the features that a file of bars gets."""
    market = load_market(configuration("bf16"))
    return dataclasses.replace(
        market, features=build_features(market.bars), feature_names=tuple(FEATURE_NAMES)
    )


def measure(config: TrainerConfig, market: MarketData, learners: LearnerCache | None = None) -> TrialTime:
    """Runs one trial.

    Args:
        config: Of a training that resolves to the fused backend.
        market: Bars and features.
        learners: Hands on the learner of the trial before; None builds a new one.
    """
    clock = DeviceClock()
    with tempfile.TemporaryDirectory() as folder, clocked(clock):
        torch.cuda.synchronize()
        started = time.perf_counter()
        training = Training(config, market, Path(folder), learners=learners)
        torch.cuda.synchronize()
        setup = time.perf_counter() - started
        before = clock.seconds()[CAPTURE]
        while not training.finished:
            training.run_epoch()
        training.finish()
        training.close()
        wall = time.perf_counter() - started
        took = clock.seconds()
    parts = {part: took[name] for name, part in PARTS.items()}
    return TrialTime(wall=wall, setup=setup, captures=took[CAPTURE] - before, **parts)


def measured() -> dict[str, TrialTime]:
    """Measures every precision with a learner of its own, and bf16 with the learner of a trial before."""
    market = hourly_market()
    times: dict[str, TrialTime] = {}
    for precision in PRECISIONS:
        measure(configuration(precision, epochs=1), market)
        times[precision] = measure(configuration(precision), market)
        torch.cuda.empty_cache()
    learners = LearnerCache()
    measure(configuration("bf16", epochs=1), market, learners)
    times["bf16, warm learner"] = measure(configuration("bf16"), market, learners)
    return times


def section(peers: bool) -> str:
    """Measures the trial and lays it out.

    Args:
        peers: Also the plain PyTorch peer, in a process of its own.
    """
    times = measured()
    return table(times, peer_parts() if peers else None)


def peer_parts() -> tuple[float, float, float]:
    """Runs the peer; returns its seconds for collecting, training and evaluating all members."""
    (share,) = peer_rows("torch_trial")
    config = configuration("tf32")
    window = split(BARS, config.walk_forward).folds[-1]
    times = FOLDS * SEEDS * config.training.epochs
    bars = window.test_stop - window.test_start - 1
    return (
        times * share["collection"],
        times * config.training.updates * share["step"],
        times * bars * share["bar"],
    )


def table(times: dict[str, TrialTime], peer: tuple[float, float, float] | None = None) -> str:
    """Lays the trials out, fused ones first, and says what the columns mean.

    Args:
        times: Name -> seconds.
        peer: Collect, train and evaluate of the peer's whole trial; None leaves it out.
    """
    rows = [row(name, each) for name, each in times.items()]
    if peer is None:
        return f"{markdown_table(HEAD, rows)}\n\n{MEANING}"
    whole = sum(peer)
    rows.append(["plain PyTorch", *(f"{each:.0f}" for each in (whole, *peer)), *["in the parts"] * 3])
    ratio = whole / next(iter(times.values())).wall
    ratios = f"Plain PyTorch / the first row: {ratio:.0f}."
    return f"{markdown_table(HEAD, rows)}\n\n{MEANING} {PEER_MEANING} {ratios}"


def row(name: str, time: TrialTime) -> list[str]:
    """The cells of one trial, in the order of ``HEAD``."""
    seconds = (time.wall, time.collect, time.train, time.evaluate, time.host, time.setup + time.captures)
    return [name, *(f"{each:.2f}" for each in seconds), f"{100 * time.host_share:.1f} %"]


def _recorded() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event
