"""Takes a new study back that was refused before its first trial, so that a refusal leaves nothing behind."""

from __future__ import annotations

import optuna
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState

from hpo.storage.storage_files import sqlite_file
from hpo.study.attributes import CONFIG, FORKED_FROM
from hpo.study.run_directory import RunDirectory


def withdraw(study: optuna.Study, storage: BaseStorage, directory: RunDirectory) -> None:
    """Deletes a study in which nothing has run; trials that were copied or only proposed go with it.

    Args:
        study: Created by this process.
        storage: Its storage; the file of an SQLite database that held nothing else goes too.
        directory: Its folder.
    """
    if any(_has_run(trial) for trial in study.get_trials(deepcopy=False)):
        return
    optuna.delete_study(study_name=study.study_name, storage=storage)
    directory.search_file.unlink(missing_ok=True)
    if not isinstance(storage, RDBStorage) or storage.get_all_studies():
        return
    file = sqlite_file(str(storage.engine.url))
    storage.engine.dispose()
    if file is not None:
        for suffix in ("", "-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)


def _has_run(trial: FrozenTrial) -> bool:
    started = trial.state != TrialState.WAITING or CONFIG in trial.user_attrs
    return started and FORKED_FROM not in trial.user_attrs
