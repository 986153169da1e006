"""What the report knows of every trial, read leniently: an older study may lack any of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from hpo.study import attributes
from hpo.study.run_directory import RunDirectory
from hpo.study.study_records import HoldoutUse, Replication, holdout_uses
from hpo.study.study_records import replications as stored_replications
from trainer.errors import DataError
from trainer.evaluation_file import EVALUATION_FILE, EvaluationRows, read_evaluation
from trainer.reports import WalkForwardScore
from trainer.trial_statistics import TrialStatistics


@dataclass(frozen=True)
class TrialRecord:
    """One trial.

    Attributes:
        number: Optuna's number.
        state: COMPLETE, PRUNED, FAIL, RUNNING or WAITING.
        value: Its objective: the final one of a COMPLETE trial, else that of the last epoch.
        params: Searched parameters.
        logarithmic: Names of the parameters searched on a logarithmic scale.
        curve: (epoch, objective) of every epoch.
        score: Score of the last epoch; None where the study keeps none.
        reason: Why it failed, or why it is degenerate; empty if neither.
        degenerate: Its value is the -10 of a degenerate seed.
        config: Effective configuration, section -> key -> value; empty where the study keeps none.
        data: What the bars were, key -> value; empty where the study keeps none.
        seconds: Training time of its epochs; None where the study keeps none.
        gpu_seconds: The same times its GPUs.
        statistics: What a COMPLETE trial did out of sample; None where the study keeps no such record.
    """

    number: int
    state: str
    value: float | None
    params: Mapping[str, Any]
    logarithmic: frozenset[str]
    curve: tuple[tuple[int, float], ...]
    score: WalkForwardScore | None
    reason: str
    degenerate: bool
    config: Mapping[str, Mapping[str, Any]]
    data: Mapping[str, Any]
    seconds: float | None = None
    gpu_seconds: float | None = None
    statistics: TrialStatistics | None = None


@dataclass(frozen=True)
class StudyRecord:
    """A study and its trials, in the order of their numbers.

    Attributes:
        name: The study's name.
        run_directory: Folder that holds ``trials/NNNN``.
        trials: Every trial, WAITING ones included.
        holdout: Looks at the hold-out, in order.
        replications: Trainings on fresh seeds.
    """

    name: str
    run_directory: Path
    trials: tuple[TrialRecord, ...]
    holdout: tuple[HoldoutUse, ...] = ()
    replications: tuple[Replication, ...] = ()

    @property
    def started(self) -> int:
        """Trials that were started, whatever became of them: the N of the deflated Sharpe ratio."""
        return sum(trial.state != "WAITING" for trial in self.trials)

    @property
    def complete(self) -> tuple[TrialRecord, ...]:
        """COMPLETE trials, degenerate ones included."""
        return tuple(trial for trial in self.trials if trial.state == "COMPLETE")

    @property
    def best(self) -> TrialRecord | None:
        """The COMPLETE trial of the highest value, the earlier on a tie; degenerate only if all are."""
        return max(
            self.complete,
            key=lambda trial: (not trial.degenerate, _order(trial.value), -trial.number),
            default=None,
        )

    def evaluation(self, number: int) -> EvaluationRows | None:
        """The out-of-sample bars of a trial, or None if its file is missing or torn."""
        try:
            return read_evaluation(RunDirectory(self.run_directory).trial(number) / EVALUATION_FILE)
        except DataError:
            return None  # the page says which statistics are missing because of it


def read_study(study: optuna.Study, run_directory: Path) -> StudyRecord:
    """Reads all trials of ``study`` once."""
    trials = tuple(_read_trial(trial) for trial in study.get_trials(deepcopy=False))
    return StudyRecord(
        study.study_name, run_directory, trials, holdout_uses(study), stored_replications(study)
    )


def _read_trial(trial: FrozenTrial) -> TrialRecord:
    score = _read_score(trial)
    curve = tuple(sorted((step, value) for step, value in trial.intermediate_values.items()))
    value = trial.value if trial.state == TrialState.COMPLETE else (curve[-1][1] if curve else None)
    # Only a finished trial is judged: an epoch on the way may be degenerate and recover.
    finished = trial.state == TrialState.COMPLETE
    reasons = list(trial.user_attrs.get(attributes.DEGENERATE) or (score.degenerate if score else ()))
    reason = attributes.read_reason(trial) or ("; ".join(map(str, reasons)) if finished else "")
    return TrialRecord(
        number=trial.number,
        state=trial.state.name,
        value=value,
        params=trial.params,
        logarithmic=frozenset(
            name for name, kind in trial.distributions.items() if getattr(kind, "log", False)
        ),
        curve=curve,
        score=score,
        reason=reason,
        degenerate=finished and bool(reasons),
        config=_mapping(trial.user_attrs.get(attributes.CONFIG)),
        data=_mapping(trial.user_attrs.get(attributes.DATA)),
        seconds=trial.user_attrs.get(attributes.SECONDS),
        gpu_seconds=trial.user_attrs.get(attributes.GPU_SECONDS),
        statistics=_read_statistics(trial),
    )


def _read_score(trial: FrozenTrial) -> WalkForwardScore | None:
    try:
        score = attributes.read_score(trial)
    except (KeyError, TypeError, ValueError):
        return None  # written by another version; the page says that no details are kept
    return score if score is not None and score.folds else None


def _read_statistics(trial: FrozenTrial) -> TrialStatistics | None:
    try:
        return attributes.read_trial_statistics(trial)
    except (KeyError, TypeError):
        return None  # written by another version, likewise


def _mapping(stored: Any) -> Mapping[str, Any]:
    """A stored mapping, whether kept as such or as JSON text."""
    if isinstance(stored, str):
        try:
            stored = json.loads(stored)
        except json.JSONDecodeError:
            return {}
    return stored if isinstance(stored, Mapping) else {}


def _order(value: float | None) -> float:
    return -math.inf if value is None or math.isnan(value) else value
