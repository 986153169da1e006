"""MirroredStorage: a study whose only writer is this process, read from memory and written an epoch at once.

Optuna reads every unfinished trial anew at each question and makes one transaction for each attribute. The
driver of a study on SQLite or in a journal file is alone with it, so what it has written is what there is.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import optuna
import sqlalchemy
from optuna.distributions import (
    BaseDistribution,
    check_distribution_compatibility,
    distribution_to_json,
)
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.study import StudyDirection
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial, TrialState

ATTRIBUTES, SYSTEM_ATTRIBUTES = (
    sqlalchemy.text(
        f"INSERT INTO {table} (trial_id, key, value_json) VALUES (:trial, :key, :value) "
        "ON CONFLICT (trial_id, key) DO UPDATE SET value_json = excluded.value_json"
    )
    for table in ("trial_user_attributes", "trial_system_attributes")
)
PARAMETERS = sqlalchemy.text(
    "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) "
    "VALUES (:trial, :name, :value, :distribution) ON CONFLICT (trial_id, param_name) DO UPDATE SET "
    "param_value = excluded.param_value, distribution_json = excluded.distribution_json"
)
REPORT = sqlalchemy.text(
    "INSERT INTO trial_intermediate_values "
    "(trial_id, step, intermediate_value, intermediate_value_type) VALUES (:trial, :step, :value, 'FINITE') "
    "ON CONFLICT (trial_id, step) DO UPDATE SET "
    "intermediate_value = excluded.intermediate_value, intermediate_value_type = 'FINITE'"
)


@dataclass
class Waiting:
    """What of a trial is in memory only.

    Attributes:
        params: Name -> Optuna's internal value and the distribution.
        attributes: JSON texts of user attributes.
        system_attributes: JSON texts of Optuna's own.
    """

    params: dict[str, tuple[float, BaseDistribution]] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    system_attributes: dict[str, str] = field(default_factory=dict)


def has_one_driver(storage: BaseStorage) -> bool:
    """Whether a study in ``storage`` has a single driver: SQLite and journal files, by the folder's lock."""
    return _is_sqlite(storage) or isinstance(storage, JournalStorage)


def _is_sqlite(storage: BaseStorage) -> TypeGuard[RDBStorage]:
    return isinstance(storage, RDBStorage) and storage.engine.dialect.name == "sqlite"


def mirrored(study: optuna.Study, storage: BaseStorage) -> tuple[optuna.Study, BaseStorage]:
    """Returns study and storage as their only driver is to use them; as they are where it is not alone."""
    if not has_one_driver(storage):
        return study, storage
    name = study.study_name
    mirror = MirroredStorage(storage, storage.get_study_id_from_name(name))
    return optuna.load_study(study_name=name, storage=mirror), mirror


def together(storage: BaseStorage) -> AbstractContextManager[None]:
    """A block whose changes of a trial are written in one transaction, where the storage is a mirror."""
    return storage.together() if isinstance(storage, MirroredStorage) else nullcontext()


class MirroredStorage(BaseStorage):
    """One study of another storage, in memory; every change goes through to it.

    Parameters and attributes of a trial that has reported go along with its next report or its next change
    of state, in one transaction: an epoch is stored whole or not at all. Those of another trial are written
    at the end of :meth:`together`. All else is written at once: on a disk that is asked to keep what it is
    given, every transaction takes milliseconds, in which the driver does nothing else.

    Args:
        storage: Holds the study.
        study_id: The study. Nobody else writes to it as long as this object is in use.
    """

    def __init__(self, storage: BaseStorage, study_id: int) -> None:
        self._storage, self._study_id = storage, study_id
        self._trials = storage.get_all_trials(study_id)
        self._number = {trial._trial_id: trial.number for trial in self._trials}
        self._waiting: dict[int, Waiting] = {}  # by trial
        self._together = False
        self._distributions: dict[str, BaseDistribution] = {}
        for trial in self._trials:
            self._distributions |= trial.distributions

    @contextmanager
    def together(self) -> Iterator[None]:
        """A block at whose end the changes of trials that have not reported are written."""
        self._together = True
        try:
            yield
        finally:
            self._together = False
            for trial_id in tuple(self._waiting):
                self._write_unless_reported(trial_id)

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """A copy that its holder may change."""
        return copy.deepcopy(self._trials[self._number[trial_id]])

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """The study's trials by number."""
        if study_id != self._study_id:
            return self._storage.get_all_trials(study_id, deepcopy, states)
        chosen = [trial for trial in self._trials if states is None or trial.state in states]
        return copy.deepcopy(chosen) if deepcopy else chosen

    def get_trial_id_from_study_id_trial_number(self, study_id: int, trial_number: int) -> int:
        """The storage's own number of a trial."""
        if study_id != self._study_id or trial_number >= len(self._trials):
            return self._storage.get_trial_id_from_study_id_trial_number(study_id, trial_number)
        return self._trials[trial_number]._trial_id

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Adds a trial."""
        trial_id = self._storage.create_new_trial(study_id, template_trial)
        if study_id == self._study_id:
            trial = self._storage.get_trial(trial_id)
            self._number[trial_id] = trial.number
            self._trials.append(trial)
        return trial_id

    def set_trial_param(
        self,
        trial_id: int,
        param_name: str,
        param_value_internal: float,
        distribution: BaseDistribution,
    ) -> None:
        """Adds a parameter.

        Raises:
            ValueError: If another trial has it with a distribution of another kind.
        """
        known = self._distributions.setdefault(param_name, distribution)
        check_distribution_compatibility(known, distribution)
        trial = self._changing(trial_id)
        self._waits(trial_id).params[param_name] = (float(param_value_internal), distribution)
        trial.distributions = {**trial.distributions, param_name: distribution}
        value = distribution.to_external_repr(param_value_internal)
        trial.params = {**trial.params, param_name: value}
        self._write_unless_reported(trial_id)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """Changes the state, and the values with it."""
        self._write_waiting(trial_id)
        done = self._storage.set_trial_state_values(trial_id, state, values)
        self._trials[self._number[trial_id]] = self._storage.get_trial(trial_id)
        return done

    def set_trial_intermediate_value(self, trial_id: int, step: int, intermediate_value: float) -> None:
        """Adds a report, with the attributes that wait for it."""
        trial = self._changing(trial_id)
        value = float(intermediate_value)
        if _is_sqlite(self._storage) and math.isfinite(value):
            self._write_waiting(trial_id, report=(step, value))
        else:
            self._write_waiting(trial_id)
            self._storage.set_trial_intermediate_value(trial_id, step, value)
        trial.intermediate_values = {**trial.intermediate_values, step: value}

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Sets an attribute; that of a trial that has reported waits for its next report or its end."""
        trial = self._changing(trial_id)
        text = json.dumps(value)
        trial.user_attrs = {**trial.user_attrs, key: json.loads(text)}
        self._waits(trial_id).attributes[key] = text
        self._write_unless_reported(trial_id)

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Sets an attribute of Optuna's own, likewise."""
        trial = self._changing(trial_id)
        text = json.dumps(value)
        trial.system_attrs = {**trial.system_attrs, key: json.loads(text)}
        self._waits(trial_id).system_attributes[key] = text
        self._write_unless_reported(trial_id)

    def _changing(self, trial_id: int) -> FrozenTrial:
        """Puts a copy in the place of a trial, so that lists handed out before keep what they hold."""
        number = self._number[trial_id]
        self.check_trial_is_updatable(trial_id, self._trials[number].state)
        self._trials[number] = copy.copy(self._trials[number])
        return self._trials[number]

    def _waits(self, trial_id: int) -> Waiting:
        return self._waiting.setdefault(trial_id, Waiting())

    def _write_unless_reported(self, trial_id: int) -> None:
        if not self._together and not self._trials[self._number[trial_id]].intermediate_values:
            self._write_waiting(trial_id)

    def _write_waiting(self, trial_id: int, report: tuple[int, float] | None = None) -> None:
        waiting = self._waiting.pop(trial_id, None)
        if waiting is None and report is None:
            return
        waiting = waiting or Waiting()
        if _is_sqlite(self._storage):
            with self._storage.engine.begin() as connection:
                _execute(connection, trial_id, waiting)
                if report is not None:
                    connection.execute(REPORT, {"trial": trial_id, "step": report[0], "value": report[1]})
            return
        for name, (value, distribution) in waiting.params.items():
            self._storage.set_trial_param(trial_id, name, value, distribution)
        for key, text in waiting.attributes.items():
            self._storage.set_trial_user_attr(trial_id, key, json.loads(text))
        for key, text in waiting.system_attributes.items():
            self._storage.set_trial_system_attr(trial_id, key, json.loads(text))

    def create_new_study(self, directions: Sequence[StudyDirection], study_name: str | None = None) -> int:
        """As the storage does; studies are not mirrored, and neither is what follows."""
        return self._storage.create_new_study(directions, study_name)

    def delete_study(self, study_id: int) -> None:
        """As the storage does."""
        self._storage.delete_study(study_id)

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        """As the storage does."""
        self._storage.set_study_user_attr(study_id, key, value)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        """As the storage does."""
        self._storage.set_study_system_attr(study_id, key, value)

    def get_study_id_from_name(self, study_name: str) -> int:
        """As the storage does."""
        return self._storage.get_study_id_from_name(study_name)

    def get_study_name_from_id(self, study_id: int) -> str:
        """As the storage does."""
        return self._storage.get_study_name_from_id(study_id)

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        """As the storage does."""
        return self._storage.get_study_directions(study_id)

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        """As the storage does."""
        return self._storage.get_study_user_attrs(study_id)

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        """As the storage does."""
        return self._storage.get_study_system_attrs(study_id)

    def get_all_studies(self) -> list[FrozenStudy]:
        """As the storage does."""
        return self._storage.get_all_studies()

    def remove_session(self) -> None:
        """As the storage does."""
        self._storage.remove_session()


def _execute(connection: sqlalchemy.Connection, trial_id: int, waiting: Waiting) -> None:
    params = [
        {"trial": trial_id, "name": name, "value": value, "distribution": distribution_to_json(distribution)}
        for name, (value, distribution) in waiting.params.items()
    ]
    if params:
        connection.execute(PARAMETERS, params)
    for statement, texts in (
        (ATTRIBUTES, waiting.attributes),
        (SYSTEM_ATTRIBUTES, waiting.system_attributes),
    ):
        rows = [{"trial": trial_id, "key": key, "value": text} for key, text in texts.items()]
        if rows:
            connection.execute(statement, rows)
