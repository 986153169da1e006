"""What a study remembers of how often its hold-out was looked at and which seeds its replications used.

Both stand in the study's user attributes and only grow. A look is noted before it is shown, and seeds
before they are trained, so that neither a look nor a training that was broken off can be had for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import optuna
from optuna.trial import FrozenTrial

from hpo.study.attributes import read_config
from hpo.study.studies import OpenStudy

HOLDOUT = "holdout"  # [HoldoutUse], in order
REPLICATION = "replication:"  # and its first seed; one Replication each


@dataclass(frozen=True)
class HoldoutUse:
    """One look at the hold-out.

    Attributes:
        date: UTC, ISO 8601, to the second.
        number: The trial that traded it.
        trials: Trials that the study had then.
        sharpe: (seed, annualised Sharpe ratio or None) of the trial's models on it.
        standard_error: Of the ratio, the largest over the seeds; None where it is not defined or not kept.
        buy_and_hold: Annualised Sharpe ratio of a constant exposure of 1 without costs over the same bars;
            None where it is not defined or not kept.
    """

    date: str
    number: int
    trials: int
    sharpe: tuple[tuple[int, float | None], ...]
    standard_error: float | None = None
    buy_and_hold: float | None = None


@dataclass(frozen=True)
class Replication:
    """One training of a trial's configuration on fresh seeds.

    Attributes:
        date: When its seeds were taken; UTC, ISO 8601, to the second.
        number: The trial.
        first_seed: The smallest of its seeds.
        seeds: How many, one after the other.
        sharpe: Annualised Sharpe ratio over all folds of every seed; empty until it has finished.
    """

    date: str
    number: int
    first_seed: int
    seeds: int
    sharpe: tuple[float, ...] = ()


def now() -> str:
    """The time, UTC, ISO 8601, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def holdout_uses(study: optuna.Study) -> tuple[HoldoutUse, ...]:
    """Every look at the hold-out so far, in order."""
    plain: list[dict[str, Any]] = study.user_attrs.get(HOLDOUT, [])
    return tuple(
        HoldoutUse(
            date=each["date"],
            number=each["number"],
            trials=each["trials"],
            sharpe=_pairs(each["sharpe"]),
            standard_error=each.get("standard_error"),
            buy_and_hold=each.get("buy_and_hold"),
        )
        for each in plain
    )


def replications(study: optuna.Study) -> tuple[Replication, ...]:
    """Every replication so far, in the order of the seeds."""
    plain = [value for key, value in study.user_attrs.items() if key.startswith(REPLICATION)]
    found = [Replication(**{**each, "sharpe": tuple(each["sharpe"])}) for each in plain]
    return tuple(sorted(found, key=lambda each: each.first_seed))


def add_holdout_use(opened: OpenStudy, use: HoldoutUse) -> tuple[HoldoutUse, ...]:
    """Appends ``use`` and returns those before it.

    Raises:
        ConfigError: If a search is running the study.
    """
    with opened.directory.driving(opened.study.study_name):
        earlier = holdout_uses(opened.study)
        opened.study.set_user_attr(HOLDOUT, [asdict(each) for each in (*earlier, use)])
    return earlier


def take_fresh_seeds(opened: OpenStudy, number: int, seeds: int) -> Replication:
    """Takes seeds that no trial and no replication of the study has had, and notes them.

    Raises:
        ConfigError: If a search is running the study.
    """
    study = opened.study
    with opened.directory.driving(study.study_name):
        first = first_fresh_seed(study.get_trials(deepcopy=False), replications(study))
        taken = Replication(now(), number, first, seeds)
        write_replication(study, taken)
    return taken


def write_replication(study: optuna.Study, replication: Replication) -> None:
    """Stores a replication under its first seed; again, with the ratios, when it has finished."""
    study.set_user_attr(f"{REPLICATION}{replication.first_seed}", asdict(replication))


def first_fresh_seed(trials: Iterable[FrozenTrial], earlier: Iterable[Replication]) -> int:
    """Returns the smallest seed above all that any trial or replication of a study has used."""
    used = [-1]
    for trial in trials:
        config = read_config(trial)
        if config is not None:
            used.append(config.training.seed + config.training.seeds - 1)
    used += [each.first_seed + each.seeds - 1 for each in earlier]
    return max(used) + 1


def _pairs(plain: list[list[Any]]) -> tuple[tuple[int, Any], ...]:
    return tuple((int(seed), value) for seed, value in plain)
