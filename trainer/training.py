"""Training: one trial, epoch by epoch: collect -> learn -> evaluate every fold -> walk-forward score."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.backend import Backend, resolve_backend
from trainer.checkpoint import CheckpointWriter, read_checkpoint, require_same_training
from trainer.config import TrainerConfig
from trainer.data.features import FEATURE_VERSION
from trainer.data.market_data import MarketData
from trainer.deployed_policy import DeployedPolicy
from trainer.evaluation import MarketEvaluation
from trainer.evaluation_file import EVALUATION_FILE, EvaluationRows, write_evaluation
from trainer.file_names import CHECKPOINT, WEIGHTS
from trainer.folds import Split, require_min_folds, split
from trainer.market_learner import MarketLearner
from trainer.members import Member, members_of
from trainer.phases import phase
from trainer.policy_file import write_policy
from trainer.reports import EpochReport, LearningReport, WalkForwardScore
from trainer.trial_statistics import STATISTICS_FILE, TrialStatistics, write_statistics
from trainer.trial_summary import summarise_trial
from trainer.walk_forward import score
from trainer.warm_learner import LearnerCache


@dataclass(frozen=True)
class TrainingResult:
    """How a training ended: the reports of every epoch, the last one being the result."""

    reports: tuple[EpochReport, ...]
    finished: bool

    @property
    def score(self) -> WalkForwardScore:
        """The score of the last epoch, the value of a COMPLETE trial."""
        return self.reports[-1].score


class Training:
    """A trial's stacked training, driven one epoch at a time.

    Args:
        config: The effective configuration.
        market: Bars, features and their hash.
        directory: Where checkpoint, weights and evaluation go.
        resume: Continue from the directory's checkpoint, bit for bit.
        keep_checkpoint: Write a last checkpoint when finished, for more epochs.
        learners: Hands on the learner of the training before, and keeps this one's for the next.

    Attributes:
        warm: Whether the learner is that of the training before.

    Raises:
        ConfigError: Fewer folds than ``walk_forward.min_folds``, or an impossible shape.
        MemoryPlanError: The device has too little memory; nothing was allocated on it.
        CheckpointError: The checkpoint belongs to another configuration or other data.
    """

    def __init__(
        self,
        config: TrainerConfig,
        market: MarketData,
        directory: Path,
        *,
        resume: bool = False,
        keep_checkpoint: bool = False,
        learners: LearnerCache | None = None,
    ) -> None:
        self.config = config
        self.market = market
        self.directory = directory
        self.backend: Backend = resolve_backend(config)
        self.split: Split = split(len(market.bars), config.walk_forward)
        require_min_folds(self.split, config.walk_forward)
        self.members: tuple[Member, ...] = members_of(config, len(self.split.folds))
        self.reports: list[EpochReport] = []
        folds = tuple(self.split.folds[member.fold] for member in self.members)
        taken = (learners or LearnerCache()).take(config, market, folds, self.members, self.backend)
        self.hyper, self.tables, self.warm = taken.hyper, taken.tables, taken.reused
        self.learner: MarketLearner = taken.learner
        self._evaluation: MarketEvaluation | None = None
        self._keep_checkpoint = keep_checkpoint
        self._writer = CheckpointWriter(directory / CHECKPOINT, config.training.checkpoint_seconds)
        if resume:
            self._restore()

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.reports)

    @property
    def finished(self) -> bool:
        """Whether every epoch is done."""
        return self.epoch >= self.config.training.epochs

    def run_epoch(self) -> EpochReport:
        """Collects, learns, evaluates, scores; offers a checkpoint.

        Raises:
            NonFiniteError: A member skipped more steps than allowed.
        """
        started = time.perf_counter()
        with phase("collect"):
            self.learner.collect()
        with phase("learn"):
            self.learner.learn(self.config.training.updates)
        with phase("evaluate"):
            self._evaluation = self.learner.evaluate()
        report = EpochReport(
            epoch=self.epoch + 1,
            epochs=self.config.training.epochs,
            score=self._score(self._evaluation),
            learning=self._learning(),
            seconds=time.perf_counter() - started,
        )
        self.reports.append(report)
        if self._writer.due():
            self._writer.offer(self._state())
        return report

    def save(self) -> None:
        """Writes a checkpoint now and waits for it."""
        self._writer.write_now(self._state())

    def finish(self) -> TrainingResult:
        """Writes weights, scalers, the last evaluation and its record.

        A checkpoint from before stays: whoever stores the result drops it then, so that a result which is
        lost on its way does not cost the whole training.
        """
        self._writer.wait()
        if self._evaluation is None:
            self._evaluation = self.learner.evaluate()
        policy, rows = self._policy(), self._rows(self._evaluation)
        with ThreadPoolExecutor(1) as disk:  # writing waits for the disk, the bootstrap for the processor
            written = disk.submit(self._write, policy, rows)
            statistics = self._statistics(self._evaluation)
            written.result()
        write_statistics(self.directory / STATISTICS_FILE, statistics)
        if self._keep_checkpoint:
            self._writer.write_now(self._state())
        return self.result()

    def close(self) -> None:
        """Waits for a checkpoint under way."""
        self._writer.wait()

    def result(self) -> TrainingResult:
        """The reports so far."""
        return TrainingResult(tuple(self.reports), self.finished)

    def _write(self, policy: DeployedPolicy, rows: EvaluationRows) -> None:
        write_policy(self.directory / WEIGHTS, policy)
        write_evaluation(self.directory / EVALUATION_FILE, rows)

    def _score(self, evaluation: MarketEvaluation) -> WalkForwardScore:
        metrics = self.config.metrics
        return score(
            evaluation.outcomes(self.members),
            objective=metrics.objective,
            min_trades=metrics.min_trades,
            periods_per_year=self.market.periods_per_year,
        )

    def _learning(self) -> LearningReport:
        means = self.learner.means.read()
        first_moment, variance = self.learner.moments()
        return LearningReport(
            critic_loss=means.critic_loss,
            value_loss=means.value_loss,
            value_gap=means.value_gap,
            gradient_norm=means.gradient_norm,
            clipped_target_share=means.clipped_target_share,
            skipped_steps=int(self.learner.guard.skipped.sum()),
            first_moment=first_moment,
            variance=variance,
        )

    def _rows(self, evaluation: MarketEvaluation) -> EvaluationRows:
        lengths = [len(each.bars) for each in evaluation.members]

        def repeated(values: list[int]) -> NDArray[np.int64]:
            return np.repeat(np.array(values, dtype=np.int64), lengths)

        def joined(name: str) -> NDArray[np.float64]:
            return np.concatenate([getattr(each, name) for each in evaluation.members])

        bars = np.concatenate([each.bars for each in evaluation.members])
        return EvaluationRows(
            seed=repeated([member.seed for member in self.members]),
            fold=repeated([member.fold for member in self.members]),
            time=self.market.bars.timestamp[bars],
            ret=joined("returns"),
            position=joined("positions"),
            benchmark=joined("buy_and_hold"),
            cost=joined("costs"),
            impact=joined("impact"),
        )

    def _statistics(self, evaluation: MarketEvaluation) -> TrialStatistics:
        return summarise_trial(self.members, evaluation.members, self.market.periods_per_year)

    def _policy(self) -> DeployedPolicy:
        return DeployedPolicy(
            config=self.config,
            members=self.members,
            data_hash=self.market.data_hash,
            feature_names=self.market.feature_names,
            feature_version=FEATURE_VERSION,
            fill="next_close" if self.tables.at_close else "next_open",
            weights=self.learner.weights_state(),
            center=self.tables.table.center,
            inverse_scale=self.tables.table.inverse_scale,
            sigma=self.tables.exact_sigma,
            step=self.market.bars.regular_step,
        )

    def _state(self) -> dict[str, Any]:
        return {
            "config": self.config.model_dump(mode="json"),
            "data_hash": self.market.data_hash,
            "reports": [report.to_dict() for report in self.reports],
            "learner": self.learner.state_dict(),
        }

    def _restore(self) -> None:
        path = self._writer.path
        state = read_checkpoint(path)
        require_same_training(path, state, self.config, self.market.data_hash)
        self.learner.load_state_dict(state["learner"])
        self.reports = [EpochReport.from_dict(report) for report in state["reports"]]


def run_training(
    config: TrainerConfig,
    market: MarketData,
    directory: Path,
    *,
    on_epoch: Callable[[EpochReport], None] = lambda report: None,
    resume: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    keep_checkpoint: bool = False,
) -> TrainingResult:
    """Runs every epoch that is left.

    Args:
        config: The effective configuration.
        market: Bars and features.
        directory: Where checkpoint, weights and evaluation go.
        on_epoch: Called with each epoch's report.
        resume: Continue from the directory's checkpoint.
        should_stop: Asked after each epoch; a stop leaves a checkpoint that continues bit for bit.
        keep_checkpoint: Keep the checkpoint of a finished training; else it is deleted.
    """
    training = Training(config, market, directory, resume=resume, keep_checkpoint=keep_checkpoint)
    try:
        while not training.finished:
            on_epoch(training.run_epoch())
            if not training.finished and should_stop():
                training.save()
                return training.result()
        result = training.finish()
        if not keep_checkpoint:
            (directory / CHECKPOINT).unlink(missing_ok=True)
        return result
    finally:
        training.close()
