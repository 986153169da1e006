"""Creates, opens, reconciles and forks Optuna studies. The search's driver is the only writer of a study."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from hpo.config import SearchConfig
from hpo.sampling.suggestions import allows, distribution
from hpo.storage.postgres import hidden_password
from hpo.storage.storage_files import missing_file, storage_file
from hpo.storage.storages import open_storage
from hpo.study.attributes import FORKED_FROM
from hpo.study.definition import (
    DIRECTION,
    Difference,
    StudyDefinition,
    difference_table,
    measure_differences,
    require_same,
)
from hpo.study.run_directory import RunDirectory
from hpo.study.shared_study import shared_study
from trainer.config import SearchSpace, validated
from trainer.errors import ConfigError
from trainer.wording import nouns, plural

DEFINITION = "definition"
RUN_DIRECTORY = "run_directory"
HOST = "host"
SEARCH = "search"  # SearchConfig as JSON, of a study that several machines may run
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


@dataclass(frozen=True)
class Reconciliation:
    """What opening a study mended.

    Attributes:
        requeued: Numbers of trials that a dead driver had left RUNNING; they wait for `foxtune resume`.
        live_driver: The process that runs the study now; its RUNNING trials were left alone.
    """

    requeued: tuple[int, ...] = ()
    live_driver: str | None = None

    @property
    def message(self) -> str | None:
        """One line for the user; ``None`` if there is nothing to say."""
        if self.live_driver is not None:
            return f"the study is being run by {self.live_driver}"
        if not self.requeued:
            return None
        numbers = ", ".join(str(number) for number in self.requeued)
        return (
            f"reconciled: the driver had died with {nouns(len(self.requeued), 'trial')} {numbers} RUNNING; "
            "WAITING now for `foxtune resume`, which continues from the checkpoints"
        )


@dataclass(frozen=True)
class OpenStudy:
    """A study that was opened, its storage and its folder."""

    study: optuna.Study
    storage: BaseStorage
    directory: RunDirectory
    definition: StudyDefinition
    reconciliation: Reconciliation


@dataclass(frozen=True)
class Fork:
    """What a fork copied.

    Attributes:
        source: Name of the old study.
        copied: Trials taken over.
        left_out: Finished trials that were not.
        incomparable: Differences that forbid copying any.
    """

    source: str
    copied: int
    left_out: int
    incomparable: tuple[Difference, ...]

    @property
    def message(self) -> str:
        """What happened and why, for the user."""
        if self.incomparable:
            table = difference_table(self.incomparable)
            return f"fork of {self.source}: no trial copied, because the values do not compare\n{table}"
        copied = plural(self.copied, "trial")
        return f"fork of {self.source}: {copied} copied, {self.left_out} outside the new space"


def exists(storage: BaseStorage, name: str) -> bool:
    """Whether the storage holds a study of that name."""
    return any(study.study_name == name for study in storage.get_all_studies())


def create(
    storage: BaseStorage, name: str, definition: StudyDefinition, directory: RunDirectory
) -> optuna.Study:
    """Creates a study.

    Raises:
        ConfigError: If it exists: with a table of the differences, or naming `foxtune resume`.
    """
    if exists(storage, name):
        require_same(name, stored_definition(storage, name), definition)
        raise ConfigError(
            "study",
            f"study {name!r} exists; continue it with `foxtune resume {name}`, or give a new name with "
            f"--study NEW, and --fork {name} with it to copy the comparable trials",
        )
    study = optuna.create_study(storage=storage, study_name=name, direction=DIRECTION)
    study.set_user_attr(DEFINITION, definition.to_json())
    note_place(study, directory)
    return study


def note_place(study: optuna.Study, directory: RunDirectory) -> None:
    """Stores where a study's files lie, for who opens it by its storage alone."""
    for key, value in ((RUN_DIRECTORY, str(directory.path)), (HOST, socket.gethostname())):
        if study.user_attrs.get(key) != value:
            study.set_user_attr(key, value)


def find_directory(study: optuna.Study, url: str, runs: str) -> RunDirectory:
    """Finds a study's folder: beside its database, below ``runs``, or where it was last run.

    Only a folder that belongs to the study in this very storage is taken. There need not be any on this
    machine; then it is the one below ``runs``, which is not made.
    """
    name, file, below = study.study_name, storage_file(url), RunDirectory.below(runs, study.study_name)
    candidates = [below]
    if file is not None:
        candidates.insert(0, RunDirectory(file.absolute().parent))
    if (noted := study.user_attrs.get(RUN_DIRECTORY)) is not None:
        candidates.append(RunDirectory(Path(noted)))
    return next((each for each in candidates if each.holds(name, url)), below)


def stored_definition(storage: BaseStorage, name: str) -> StudyDefinition:
    """Reads the definition that a study was created with, its direction as the storage has it.

    Raises:
        ConfigError: If the study was not made by foxtune.
    """
    study_id = storage.get_study_id_from_name(name)
    text = storage.get_study_user_attrs(study_id).get(DEFINITION)
    if text is None:
        raise ConfigError("study", f"study {name!r} was not made by foxtune, or not wholly; use --study NEW")
    stored = StudyDefinition.from_json(text)
    direction = storage.get_study_directions(study_id)[0].name.lower()
    return StudyDefinition(direction, stored.data_hash, stored.fixed, stored.space)


def store_search(study: optuna.Study, search: SearchConfig) -> None:
    """Keeps a search's configuration, without this machine's folder and without the storage's address."""
    study.set_user_attr(SEARCH, search.model_dump_json(exclude={"runs", "storage"}))


def stored_search(storage: BaseStorage, name: str, runs: str) -> SearchConfig:
    """Reads what :func:`store_search` kept, for the folder ``runs``.

    Raises:
        ConfigError: If the study keeps none.
    """
    text = storage.get_study_user_attrs(storage.get_study_id_from_name(name)).get(SEARCH)
    if text is None:
        raise ConfigError("study", f"the driver of study {name!r} died while making it; use --study NEW")
    return validated(SearchConfig, {**json.loads(text), "runs": runs})


def open_existing(url: str, name: str, runs: str = "runs") -> OpenStudy:
    """Opens a study for reading, mending what a dead driver left; a live driver's trials are left alone.

    Args:
        url: Storage URL.
        name: Study name.
        runs: Folder of the studies' folders on this machine.

    Raises:
        ConfigError: If there is no such study, naming those that there are.
    """
    storage = open_found(url, name)
    study = optuna.load_study(storage=storage, study_name=name)
    definition = stored_definition(storage, name)
    directory = find_directory(study, url, runs)
    if (shared := shared_study(study, storage)) is not None:
        freed, others = shared.free_orphans(), ", ".join(shared.others())
        return OpenStudy(study, storage, directory, definition, Reconciliation(freed, others or None))
    if not directory.path.exists():  # it is elsewhere, and so is the lock that would allow to mend
        host = study.user_attrs.get(HOST)
        away = host != socket.gethostname() and bool(running(study))
        found = Reconciliation(live_driver=f"host {host}" if away else None)
        return OpenStudy(study, storage, directory, definition, found)
    live = directory.live_driver()
    if live is not None:
        return OpenStudy(study, storage, directory, definition, Reconciliation(live_driver=live))
    with directory.driving(name):
        found = reconcile(study, storage)
    return OpenStudy(study, storage, directory, definition, found)


def open_found(url: str, name: str) -> BaseStorage:
    """Opens the storage of a study that must exist, without creating a file.

    Raises:
        ConfigError: If there is no such file or study.
    """
    if (missing := missing_file(url)) is not None:
        raise ConfigError("study", f"there is no study {name!r}: {missing}; see `foxtune tune`")
    storage = open_storage(url)
    if not exists(storage, name):
        known = ", ".join(sorted(study.study_name for study in storage.get_all_studies())) or "none"
        raise ConfigError(
            "study", f"there is no study {name!r} in {hidden_password(url)}; there are: {known}"
        )
    return storage


def running(study: optuna.Study) -> tuple[int, ...]:
    """Numbers of the RUNNING trials."""
    trials = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    return tuple(trial.number for trial in trials)


def ended(study: optuna.Study) -> tuple[int, ...]:
    """Numbers of the trials that have ended, whatever their state."""
    return tuple(trial.number for trial in study.get_trials(deepcopy=False, states=FINISHED))


def finished(study: optuna.Study) -> int:
    """How many trials have ended, those copied from another study not counted."""
    trials = study.get_trials(deepcopy=False, states=FINISHED)
    return sum(FORKED_FROM not in trial.user_attrs for trial in trials)


def reconcile(study: optuna.Study, storage: BaseStorage) -> Reconciliation:
    """Puts RUNNING trials back to WAITING: those of dead drivers where several may run the study, else all.

    To be called by the holder of the driver's lock only.
    """
    if (shared := shared_study(study, storage)) is not None:
        return Reconciliation(shared.free_orphans())
    numbers = running(study)
    for number in numbers:
        requeue(study, storage, number)
    return Reconciliation(requeued=numbers)


def requeue(study: optuna.Study, storage: BaseStorage, number: int) -> None:
    """Puts a RUNNING trial back to WAITING: it keeps number, parameters and intermediate values.

    Optuna's ``ask`` hands out WAITING trials first, and ``suggest_*`` returns the values they hold.
    """
    study_id = storage.get_study_id_from_name(study.study_name)
    trial_id = storage.get_trial_id_from_study_id_trial_number(study_id, number)
    storage.set_trial_state_values(trial_id, state=TrialState.WAITING)


def fork(source: OpenStudy, target: optuna.Study, definition: StudyDefinition) -> Fork:
    """Copies the trials of ``source`` that ``definition`` could have produced into ``target``.

    COMPLETE and PRUNED trials are copied whose parameters lie in the new space; none if data, objective,
    direction or fixed configuration differ, because their values would not compare.
    """
    trials = source.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    name = source.study.study_name
    incomparable = measure_differences(source.definition, definition)
    comparable = [] if incomparable else [each for each in trials if allows(definition.space, each.params)]
    for trial in comparable:
        target.add_trial(_copied(trial, definition.space, f"{name}:{trial.number}"))
    return Fork(name, len(comparable), len(trials) - len(comparable), incomparable)


def _copied(trial: FrozenTrial, space: SearchSpace, origin: str) -> FrozenTrial:
    parameters = {parameter.name: parameter for parameter in space.parameters}
    return optuna.trial.create_trial(
        state=trial.state,
        value=trial.value,
        params=trial.params,
        distributions={name: distribution(parameters[name]) for name in trial.params},
        user_attrs={**trial.user_attrs, FORKED_FROM: origin},
        system_attrs=trial.system_attrs,
        intermediate_values=trial.intermediate_values,
    )
