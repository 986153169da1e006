"""User attributes of a trial: what a study keeps beside parameters and values, and typed ways to read it."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from trainer.config import TrainerConfig
from trainer.reports import LearningReport, WalkForwardScore
from trainer.trial_statistics import STATISTICS_FILE, TrialStatistics, read_statistics

if TYPE_CHECKING:
    from hpo.gpus.gpu_memory import GpuUsage
    from trainer.data.market_data import MarketData

CONFIG = "config"  # the whole effective TrainerConfig, JSON
DATA_HASH = "data_hash"
DATA = "data"  # DataRecord: what the bars were
SCORE = "score"  # WalkForwardScore of the last reported epoch
LEARNING = "learning"  # LearningReport of the last reported epoch
MACHINE = "machine"  # host, GPU and versions of the process that trained
REASON = "reason"  # why a trial FAILed, one line
EPOCH_SHARPES = "epoch_sharpes"  # {epoch: {seed: [Sharpe of each fold]}}, where the pruner compares them
FOLD_SHARPE = "fold_sharpe"  # {seed: [Sharpe of each fold]}, at the end
SEED_SHARPE = "seed_sharpe"  # {seed: Sharpe over all folds}, at the end
STATISTICS = "statistics"  # TrialStatistics of a trial that ran to its end
TRADES = "trades"  # over all seeds and folds, at the end
SEED_SPREAD = "seed_spread"
STANDARD_ERROR = "standard_error"
DEGENERATE = "degenerate"  # reasons, at the end; empty if fine
VIOLATION = "violation"  # value of the constraint that the dashboard leaves out: above 0 is infeasible
NODE = "node"  # host of MACHINE, as a column that the dashboard sorts by; likewise GPU
GPU = "gpu"
GPU_DRIVER = "gpu_driver"  # version of the NVIDIA driver; this and the next two on a GPU alone
PEAK_MIB = "peak_mib"  # most GPU memory of the trial's tensors at a time
GPU_USED_MIB = "gpu_used_mib"  # GPU memory in use by all processes when the trial last reported
SETUP_SECONDS = "setup_seconds"  # from the assignment to the first epoch's start
FIRST_EPOCH_AT = "first_epoch_at"  # when the first epoch began, by the clock of its process, UNIX seconds
WARM = "warm"  # whether the trial took over buffers and graphs of the one before it
SECONDS = "seconds"  # training time of all epochs
DRIVER = "driver"  # the process that runs a trial of a study with several drivers
FILES = "files"  # {host, folder}: where that driver keeps the study's files, and so the trial's
GPU_SECONDS = "gpu_seconds"  # SECONDS times the GPUs of a trial
WARM_STARTED_FROM = "warm_started_from"  # "STUDY:NUMBER" whose parameters a trial tries again
FORKED_FROM = "forked_from"  # "STUDY:NUMBER" of a copied trial

KILLED = "killed"
TIMEOUT = "timeout"
OUT_OF_MEMORY = "oom"

logger = logging.getLogger("foxtune")


@dataclass(frozen=True)
class Machine:
    """Where a trial ran.

    Attributes:
        host: Node name.
        gpu: Name and UUID, or ``none``.
        versions: (package, version), foxtune and Python included.
    """

    host: str
    gpu: str
    versions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Setup:
    """What a trial's start cost.

    Attributes:
        seconds: From the assignment to the start of the first epoch.
        warm: Whether it took over buffers and graphs of the trial before it in its process.
        first_epoch_at: When that epoch began, UNIX seconds.
    """

    seconds: float
    warm: bool
    first_epoch_at: float


@dataclass(frozen=True)
class DataRecord:
    """What the bars of a trial were.

    Attributes:
        name: Name of the market, or the file's absolute path.
        path: ``data.path`` of the search.
        hash: SHA-256 of everything that decides a training's numbers.
        periods_per_year: Bars per year.
        rows: How many bars.
        first: Timestamp of the first bar, ISO 8601, UTC, to the second.
        last: Timestamp of the last bar.
    """

    name: str
    path: str
    hash: str
    periods_per_year: float
    rows: int
    first: str
    last: str

    @classmethod
    def of(cls, market: MarketData, path: str) -> Self:
        """Describes ``market``, which was loaded from ``path``."""
        stamps = market.bars.timestamp.astype("datetime64[ns]").astype("datetime64[s]")
        first, last = (f"{np.datetime_as_string(stamp)}Z" for stamp in (stamps[0], stamps[-1]))
        return cls(market.name, path, market.data_hash, market.periods_per_year, len(stamps), first, last)


def write_start(trial: optuna.Trial, config: TrainerConfig, data: DataRecord) -> None:
    """Stores what a trial is going to run; a resumed trial keeps what it has."""
    if CONFIG not in trial.user_attrs:
        # With spaces: the dashboard breaks lines there, and one that it cannot break hides what is beside it.
        trial.set_user_attr(CONFIG, json.dumps(config.model_dump(mode="json")))
        trial.set_user_attr(DATA_HASH, data.hash)
        trial.set_user_attr(DATA, asdict(data))


def write_epoch(
    trial: optuna.Trial, score: WalkForwardScore, learning: LearningReport, seconds: float
) -> None:
    """Stores the details of an epoch; each overwrites the last one's."""
    trial.set_user_attr(SCORE, asdict(score))
    trial.set_user_attr(LEARNING, {key: _plain(value) for key, value in asdict(learning).items()})
    trial.set_user_attr(SECONDS, float(trial.user_attrs.get(SECONDS, 0.0)) + seconds)


def write_epoch_sharpes(trial: optuna.Trial, epoch: int, score: WalkForwardScore) -> None:
    """Adds the Sharpe ratios of an epoch to those of the epochs before."""
    known: dict[str, dict[str, list[float]]] = dict(trial.user_attrs.get(EPOCH_SHARPES, {}))
    known[str(epoch)] = _by_seed(score)
    trial.set_user_attr(EPOCH_SHARPES, known)


def read_epoch_sharpes(trial: FrozenTrial, epoch: int) -> dict[tuple[int, int], float]:
    """(seed, fold) -> annualised Sharpe ratio after ``epoch``; empty if it was not stored."""
    stored: dict[str, dict[str, list[float]]] = trial.user_attrs.get(EPOCH_SHARPES, {})
    return {
        (int(seed), fold): sharpe
        for seed, folds in stored.get(str(epoch), {}).items()
        for fold, sharpe in enumerate(folds)
    }


def write_machine(trial: optuna.Trial, machine: Machine) -> None:
    """Stores where a trial runs."""
    trial.set_user_attr(
        MACHINE, {"host": machine.host, "gpu": machine.gpu, "versions": dict(machine.versions)}
    )
    trial.set_user_attr(NODE, machine.host)
    trial.set_user_attr(GPU, machine.gpu)


def write_setup(trial: optuna.Trial, setup: Setup) -> None:
    """Stores what a trial's start cost."""
    trial.set_user_attr(SETUP_SECONDS, round(setup.seconds, 3))
    trial.set_user_attr(WARM, setup.warm)
    trial.set_user_attr(FIRST_EPOCH_AT, round(setup.first_epoch_at, 3))


def write_usage(trial: optuna.Trial, usage: GpuUsage) -> None:
    """Stores what a trial has used of its GPU."""
    trial.set_user_attr(GPU_DRIVER, usage.driver)
    trial.set_user_attr(PEAK_MIB, usage.peak_mib)
    trial.set_user_attr(GPU_USED_MIB, usage.used_mib)


def write_cost(trial: optuna.Trial, gpus: float) -> None:
    """Stores what a trial's epochs have cost in GPU time."""
    trial.set_user_attr(GPU_SECONDS, float(trial.user_attrs.get(SECONDS, 0.0)) * gpus)


def write_end(trial: optuna.Trial, score: WalkForwardScore | None) -> None:
    """Flattens the last score for tables and the dashboard, and marks a degenerate trial infeasible."""
    if score is None:
        return
    trial.set_user_attr(FOLD_SHARPE, _by_seed(score))
    trial.set_user_attr(SEED_SHARPE, {str(seed): sharpe for seed, sharpe in score.per_seed})
    trial.set_user_attr(TRADES, sum(fold.trades for fold in score.folds))
    trial.set_user_attr(SEED_SPREAD, score.seed_spread)
    trial.set_user_attr(STANDARD_ERROR, score.standard_error)
    trial.set_user_attr(DEGENERATE, list(score.degenerate))
    violation = 1.0 if score.degenerate else -1.0
    if DEGENERATE not in trial.constraints:  # a driver that was killed at the trial's end has set it
        trial.set_constraint(DEGENERATE, violation)
    trial.set_user_attr(VIOLATION, violation)


def write_statistics(trial: optuna.Trial, folder: Path) -> None:
    """Copies the record that a training wrote at its end; a trial that was stopped earlier has none."""
    path = folder / STATISTICS_FILE
    if not path.exists():
        return
    try:
        trial.set_user_attr(STATISTICS, asdict(read_statistics(path)))
    except (OSError, ValueError) as error:  # the trial has its score; what is left out is said
        logger.warning("trial %d keeps no statistics: %s", trial.number, error)


def read_trial_statistics(trial: FrozenTrial) -> TrialStatistics | None:
    """What a finished trial did out of sample; ``None`` if the study does not keep it."""
    plain: dict[str, Any] | None = trial.user_attrs.get(STATISTICS)
    return None if plain is None else TrialStatistics.from_dict(plain)


def read_config(trial: FrozenTrial) -> TrainerConfig | None:
    """The whole effective configuration; ``None`` for a trial that never started."""
    text = trial.user_attrs.get(CONFIG)
    return None if text is None else TrainerConfig.build(json.loads(text))


def read_score(trial: FrozenTrial | optuna.Trial) -> WalkForwardScore | None:
    """The score of the last reported epoch, whatever the trial's state."""
    plain: dict[str, Any] | None = trial.user_attrs.get(SCORE)
    return None if plain is None else WalkForwardScore.from_dict(plain)


def read_machine(trial: FrozenTrial) -> Machine | None:
    """Where a trial ran; ``None`` if it never reported."""
    plain: dict[str, Any] | None = trial.user_attrs.get(MACHINE)
    if plain is None:
        return None
    return Machine(plain["host"], plain["gpu"], tuple(plain["versions"].items()))


def read_reason(trial: FrozenTrial) -> str | None:
    """Why a trial failed."""
    reason: str | None = trial.user_attrs.get(REASON)
    return reason


def is_degenerate(trial: FrozenTrial) -> bool:
    """Whether a trial's score is the -10 of a degenerate seed."""
    return bool(trial.user_attrs.get(DEGENERATE))


def best_trial(trials: list[FrozenTrial]) -> FrozenTrial | None:
    """The COMPLETE trial of the highest value that is not degenerate; the earlier one on a tie."""
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE and not is_degenerate(trial)]
    return max(complete, key=lambda trial: (trial.value, -trial.number), default=None)


def _by_seed(score: WalkForwardScore) -> dict[str, list[float]]:
    by_seed: dict[str, list[float]] = {}
    for fold in score.folds:
        by_seed.setdefault(str(fold.seed), []).append(fold.sharpe)
    return by_seed


def _plain(value: float) -> float | None:
    # JSON has no NaN, and the dashboard's reader refuses it.
    return value if math.isfinite(value) else None
