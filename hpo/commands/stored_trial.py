"""Reading one trial of a study: the best or a numbered one, its configuration, value and data hash."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpo.attributes import DATA_HASH, best_trial, read_config, read_machine
from hpo.commands.study_flags import study_name
from hpo.config import SearchConfig
from hpo.effective_config import Assignment
from hpo.run_directory import RunDirectory
from hpo.studies import OpenStudy, open_existing
from trainer.config import TrainerConfig, validated
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
    return open_existing(storage_url(name, arguments.storage, arguments.runs), name)


def storage_url(name: str, storage: str | None, runs: str) -> str:
    """Returns where a study lies: ``storage`` if given, else the database in its folder below ``runs``.

    Raises:
        ConfigError: For a name that no study can have.
    """
    search = validated(SearchConfig, {"study": name, "storage": storage, "runs": runs})
    return RunDirectory.of(search).storage_url(search)


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


def record_assignments(name: str, number: int | None, storage: str | None, runs: str) -> list[Assignment]:
    """Turns a trial's configuration into assignments, to which flags are added.

    Args:
        name: Of the study.
        number: Of the trial; None for the best.
        storage: The study's storage; None for its folder.
        runs: Folder of the studies' folders.

    Raises:
        ConfigError: If there is no such trial.
    """
    stored = read_trial(open_existing(storage_url(name, storage, runs), name), number)
    origin = f"study {name}, trial {stored.trial.number}"
    return [
        Assignment(f"{section}.{key}", value, origin)
        for section, values in stored.config.model_dump().items()
        for key, value in values.items()
    ]
