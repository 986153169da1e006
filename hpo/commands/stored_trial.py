"""Reading one trial of a study: the best or a numbered one, its configuration, value and data hash."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpo.commands.study_flags import study_name
from hpo.study.attributes import DATA_HASH, best_trial, read_config, read_machine
from hpo.study.studies import OpenStudy, open_existing
from hpo.tuner import study_url
from trainer.config import TrainerConfig
from trainer.errors import ConfigError

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


@dataclass(frozen=True)
class StoredTrial:
    """What a trial's storage says of it.

    Attributes:
        study: Name of its study.
        trial: As Optuna keeps it.
        config: The whole effective configuration that it ran with.
        data_hash: Of the data that it saw.
    """

    study: str
    trial: FrozenTrial
    config: TrainerConfig
    data_hash: str


def open_named(arguments: Namespace) -> OpenStudy:
    """Opens the study that ``add_study_arguments`` declared; a dead driver's trials are set right.

    Raises:
        ConfigError: If no study is named, or there is none of that name.
    """
    name = study_name(arguments)
    return open_existing(study_url(arguments.runs, name, arguments.storage), name, arguments.runs)


def read_trial(opened: OpenStudy, number: int | None) -> StoredTrial:
    """Finds a trial.

    Args:
        opened: The study.
        number: Optuna's number; None for the best trial.

    Raises:
        ConfigError: If there is no such trial, or it never started.
    """
    name = opened.study.study_name
    trials = opened.study.get_trials(deepcopy=False)
    if number is None:
        trial = best_trial(trials)
        if trial is None:
            raise ConfigError("study", f"{name!r} has no complete trial that counts; give --number N")
    elif 0 <= number < len(trials):
        trial = trials[number]
    else:
        raise ConfigError(
            "--number", f"study {name!r} has the trials 0 to {len(trials) - 1}, but got {number}"
        )
    config = read_config(trial)
    if config is None:
        raise ConfigError(
            "--number", f"trial {trial.number} of study {name!r} never started, so it has no configuration"
        )
    return StoredTrial(name, trial, config, str(trial.user_attrs[DATA_HASH]))


def describe(stored: StoredTrial) -> str:
    """Says everything that a trial's record holds: state, value, parameters, data, machine, configuration."""
    trial = stored.trial
    machine = read_machine(trial)
    value = "none" if trial.value is None else repr(trial.value)
    lines = [
        f"study {stored.study}, trial {trial.number}, {trial.state.name}, objective {value}",
        *(f"  {name} = {chosen!r}" for name, chosen in trial.params.items()),
        f"data {stored.config.data.path}, hash {stored.data_hash}",
    ]
    if machine is not None:
        versions = ", ".join(f"{package} {version}" for package, version in machine.versions)
        lines.append(f"trained on {machine.host}, GPU {machine.gpu}; {versions}")
    lines.append(f"configuration {stored.config.model_dump_json()}")
    return "\n".join(lines)
