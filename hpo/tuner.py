"""The search: Ray Tune runs the trials, Optuna chooses and stops them, the study says what happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import optuna

from hpo.advice import configuration_advice
from hpo.cluster.cluster_address import ignored_address, joins, require_lasting, running_cluster
from hpo.config import SearchConfig
from hpo.gpus.resources import check_gpus, visible_gpus
from hpo.interruption import Interruption
from hpo.job import TRAINING, Job, Place
from hpo.outcome import Ended, Say, SearchOutcome, summarise
from hpo.sampling.combinations import require_legal_combinations, require_room_for_lanes
from hpo.search_market import market_of
from hpo.storage.postgres import hidden_password, is_postgres
from hpo.storage.storage_files import missing_file, storage_file, with_file
from hpo.storage.storages import open_storage
from hpo.study.definition import StudyDefinition, require_same
from hpo.study.run_directory import RunDirectory
from hpo.study.shared_study import shared_study
from hpo.study.studies import (
    OpenStudy,
    create,
    exists,
    finished,
    fork,
    note_place,
    open_existing,
    open_found,
    reconcile,
    store_search,
    stored_definition,
    stored_search,
)
from hpo.study.warm_start import enqueue_best
from hpo.study.withdrawal import withdraw
from trainer.config import SearchSpace
from trainer.errors import ConfigError, FoxtuneError
from trainer.folds import split
from trainer.wording import plural

if TYPE_CHECKING:
    from hpo.progress.progress import Display
    from hpo.trial.trainable import TrainingFactory
    from trainer.data.market_data import MarketData


def tune(
    search: SearchConfig,
    space: SearchSpace,
    *,
    fork_from: str | None = None,
    warm_start: str | None = None,
    market: MarketData | None = None,
    training: str | TrainingFactory = TRAINING,
    say: Say = lambda line: None,
    display: Display | None = None,
) -> SearchOutcome:
    """Creates a study and searches.

    Args:
        search: Everything about the search.
        space: What is searched.
        fork_from: Name of a study whose comparable trials are copied first, see :func:`open_earlier`.
        warm_start: Name of a study whose best parameters are tried first, found likewise.
        market: The data; loaded as ``search.trainer.data`` says if not given.
        training: What a trial runs, as ``module:name`` or itself.
        say: Prints a line for the user.
        display: Where progress is shown; by default a table on a terminal, lines elsewhere.

    Raises:
        ConfigError: If the study exists, GPUs are missing, or a rule is broken; nothing has been started.
    """
    search = with_absolute_paths(search)
    directory = RunDirectory.of(search)
    place = _require_startable(search, space, training)
    source = None if fork_from is None else open_earlier(search, fork_from)
    earlier = None if warm_start is None else open_earlier(search, warm_start)
    data = _fitting_market(search, space, market, say)
    if market is None:
        for line in _introduction(search, space, data):
            say(line)
    _say_place(search, place, say)
    with Interruption() as interruption, directory.driving(search.study):
        definition = StudyDefinition.of(search, space, data.data_hash)
        url = directory.storage_url(search)
        storage = open_storage(url)
        with interruption.deferred():  # a part of this could neither be resumed nor be started again
            study = create(storage, search.study, definition, directory)
            if source is not None:
                say(fork(source, study, definition).message)
            if earlier is not None:
                count = min(search.warm_start_trials, search.trials)
                say(enqueue_best(earlier.study, study, space, count))
            if shared_study(study, storage) is not None:
                store_search(study, search)
            directory.write_search(search)
        try:
            from hpo.driver import drive  # imports Ray, which a refused search need not wait for

            job = Job(search, space, study, storage, data, training, place, say, interruption, display)
            return drive(job)
        except FoxtuneError:
            withdraw(study, storage, directory)
            raise


def resume(
    search: SearchConfig,
    space: SearchSpace | None = None,
    *,
    market: MarketData | None = None,
    training: str | TrainingFactory = TRAINING,
    say: Say = lambda line: None,
    display: Display | None = None,
) -> SearchOutcome:
    """Goes on with a study until ``search.trials`` trials have ended; interrupted ones continue first.

    Args:
        search: As :func:`saved_search` returns it, or with other trials, concurrency, budget.
        space: Compared with the study's; the study's own if not given.
        market: The data; loaded if not given.
        training: What a trial runs.
        say: Prints a line for the user.
        display: Where progress is shown; by default a table on a terminal, lines elsewhere.

    Raises:
        ConfigError: If there is no such study, another process runs it, or its definition differs.
    """
    search = with_absolute_paths(search)
    directory = RunDirectory.of(search)
    url = directory.storage_url(search)
    open_found(url, search.study)
    with Interruption() as interruption, directory.driving(search.study):
        storage = open_storage(url)
        study = optuna.load_study(storage=storage, study_name=search.study)
        mended = reconcile(study, storage).message
        if mended is not None:
            say(mended)
        old = stored_definition(storage, search.study)
        space = space or old.space
        require_same(search.study, old, StudyDefinition.of(search, space, old.data_hash))
        if finished(study) >= search.trials:
            return summarise(study, url, directory, Ended.NOTHING_TO_DO, None, 0, 0.0)
        if shared_study(study, storage) is None:
            note_place(study, directory)
        place = _require_startable(search, space, training)
        _say_place(search, place, say)
        data = _fitting_market(search, space, market, say)
        require_same(search.study, old, StudyDefinition.of(search, space, data.data_hash))
        directory.write_search(search)
        from hpo.driver import drive  # as in tune

        job = Job(search, old.space, study, storage, data, training, place, say, interruption, display)
        return drive(job)


def saved_search(runs: str, study: str, storage: str | None = None) -> SearchConfig:
    """Reads the configuration that a study was last run with.

    Args:
        runs: Folder of the studies' folders.
        study: Its name.
        storage: Where the study lies. A PostgreSQL study that has no folder here yet, because another
            machine started it, says itself how it is run.

    Raises:
        ConfigError: If ``runs/study`` holds no search.
    """
    directory = RunDirectory.below(runs, study)
    if storage is not None and is_postgres(storage) and not directory.search_file.exists():
        return stored_search(open_found(storage, study), study, runs)
    return directory.read_search()


def study_url(runs: str, study: str, storage: str | None = None) -> str:
    """Returns the storage of a study: as given, as its folder says, or the folder's own SQLite file."""
    if storage is not None:
        return storage
    directory = RunDirectory.below(runs, study)
    if directory.search_file.exists():
        return directory.storage_url(directory.read_search())
    return directory.default_url


def with_absolute_paths(search: SearchConfig) -> SearchConfig:
    """Makes the paths of ``runs``, a data file and a storage file absolute: trials run in other folders."""
    from trainer.data.sources import is_named

    data = search.trainer.data
    path = Path(data.path).expanduser()
    if path.is_file() and not is_named(data.path):
        data = data.model_copy(update={"path": str(path.absolute())})
    trainer = search.trainer.model_copy(update={"data": data})
    runs = str(Path(search.runs).expanduser().absolute())
    require_lasting("runs", runs)
    file = None if search.storage is None else storage_file(search.storage)
    storage = search.storage
    if storage is not None and file is not None:
        storage = with_file(storage, file.absolute())
    return search.model_copy(update={"trainer": trainer, "runs": runs, "storage": storage})


def open_earlier(search: SearchConfig, name: str) -> OpenStudy:
    """Opens the study that a new one begins with: in the new one's storage, else where its folder says.

    Raises:
        ConfigError: If it is in neither.
    """
    url, folder = search.storage, RunDirectory.below(search.runs, name)
    if url is None or (missing_file(url) is None and exists(open_storage(url), name)):
        return open_existing(study_url(search.runs, name, url), name, search.runs)
    if not folder.search_file.exists():
        raise ConfigError(
            "study",
            f"there is no study {name!r} in {hidden_password(url)}, and {folder.path} holds no search; "
            "give the name of another study",
        )
    return open_existing(study_url(search.runs, name), name, search.runs)


def _require_startable(search: SearchConfig, space: SearchSpace, training: str | TrainingFactory) -> Place:
    """Asks what `tune` and `resume` both ask before they read the data; returns where the trials run."""
    require_legal_combinations(space, search.trial_trainer)
    _require_picklable(training)
    return _find_place(search)


def _fitting_market(
    search: SearchConfig, space: SearchSpace, market: MarketData | None, say: Say
) -> MarketData:
    data = market_of(search, market, say)
    require_room_for_lanes(space, search.trial_trainer, data)
    return data


def _introduction(search: SearchConfig, space: SearchSpace, market: MarketData) -> Iterator[str]:
    yield from configuration_advice(search.trainer)
    folds = split(len(market.bars), search.trainer.walk_forward).folds
    yield (
        f"study {search.study}: {plural(search.trials, 'trial')} of {space.name} on {market.name}, "
        f"{plural(len(market.bars), 'bar')}, {plural(len(folds), 'fold')}"
    )


def _find_place(search: SearchConfig) -> Place:
    if joins(search.ray.address):
        return Place((), running_cluster(search.ray.address))
    if search.gpus_per_trial == 0:
        return Place((), None)
    gpus = visible_gpus()
    check_gpus(search, gpus)
    return Place(gpus, None)


def _say_place(search: SearchConfig, place: Place, say: Say) -> None:
    if (ignored := ignored_address(search.ray.address)) is not None:
        say(ignored)
    for gpu in place.gpus:
        memory = "" if gpu.free_mib is None else f", {gpu.free_mib} MiB free"
        say(f"GPU {gpu.name} {gpu.uuid}{memory}")


def _require_picklable(training: str | TrainingFactory) -> None:
    if not isinstance(training, str):
        from hpo.cluster.submission import require_picklable

        require_picklable(training)
