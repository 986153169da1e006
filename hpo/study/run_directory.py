"""The folder of a study: effective configuration, trials, Ray's scratch, and the lock of the live driver."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpo.config import SearchConfig
from hpo.storage.postgres import has_password
from hpo.storage.storage_files import storage_file, with_file
from trainer.config import validated
from trainer.errors import ConfigError, FoxtuneError
from trainer.file_names import CHECKPOINT
from trainer.whole_file import whole_file

LOG = "log.txt"


@dataclass(frozen=True)
class RunDirectory:
    """Paths of one study's folder.

    Attributes:
        path: ``RUNS/STUDY``, absolute.
    """

    path: Path

    @classmethod
    def of(cls, search: SearchConfig) -> RunDirectory:
        """The folder of a search's study."""
        return cls.below(search.runs, search.study)

    @classmethod
    def below(cls, runs: str, study: str) -> RunDirectory:
        """The folder of a study in the folder of all studies' folders."""
        return cls((Path(runs) / study).absolute())

    @property
    def search_file(self) -> Path:
        """The effective configuration."""
        return self.path / "search.json"

    @property
    def lock_file(self) -> Path:
        """Held by the live driver; names it."""
        return self.path / "driver.lock"

    @property
    def stop_file(self) -> Path:
        """There while the driver asks the trials to save and stop."""
        return self.path / "stop"

    @property
    def scratch(self) -> Path:
        """Ray Tune's own records; removed when a search ends."""
        return self.path / "ray"

    @property
    def artifacts(self) -> Path:
        """Files that Optuna Dashboard shows with trials."""
        return self.path / "artifacts"

    def trial(self, number: int) -> Path:
        """The folder of a trial: log.txt, checkpoint.pt, weights.pt, evaluation.parquet, statistics.json."""
        return self.path / "trials" / f"{number:04d}"

    @property
    def default_url(self) -> str:
        """The storage of a search that names none: SQLite in this folder."""
        return f"sqlite:///{self._database}"

    def storage_url(self, search: SearchConfig) -> str:
        """The storage that a search names, else the default one."""
        return search.storage or self.default_url

    def write_search(self, search: SearchConfig) -> None:
        """Stores the effective configuration, whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        secret = search.storage is not None and has_password(search.storage)
        with whole_file(self.search_file) as partial:
            partial.touch(0o600 if secret else 0o666)
            partial.write_text(search.model_dump_json(indent=2), encoding="utf-8")

    def read_search(self) -> SearchConfig:
        """Reads the effective configuration, for the place where the folder lies now.

        Raises:
            ConfigError: If the folder holds no search.
        """
        try:
            text = self.search_file.read_text(encoding="utf-8")
            return self._moved_here(validated(SearchConfig, json.loads(text)))
        except FileNotFoundError:
            raise ConfigError("study", self._no_search()) from None
        except ValueError as error:  # no JSON, or no text
            raise ConfigError("study", f"{self.search_file} is not JSON ({error}); restore it") from None
        except ConfigError as error:
            raise ConfigError("study", f"{self.search_file} is refused ({error}); restore it") from None

    @property
    def _database(self) -> Path:
        return self.path / "study.db"

    def _no_search(self) -> str:
        if not self._database.exists():
            return f"no search was started in {self.path} (search.json is missing); see `foxtune tune`"
        return (
            f"{self.search_file} is missing, which says how the study is run; restore it, or copy the trials "
            f"to a new study with `foxtune tune --study NEW --fork {self.path.name}`"
        )

    def holds(self, study: str, url: str) -> bool:
        """Whether this is the folder of the study of that name in the storage ``url``.

        A copy of a file is another storage, while a server may be named in several ways.
        """
        if self.search_file.exists():
            search = self.read_search()
            name, own = search.study, self.storage_url(search)
        else:
            name, own = self.path.name, self.default_url
        if name != study:
            return False
        own_file, file = storage_file(own), storage_file(url)
        if own_file is None or file is None:
            return own_file is file
        return file.exists() and own_file.exists() and own_file.samefile(file)

    def clear_trial(self, number: int) -> None:
        """Empties a trial's folder before a fresh start, so that nothing foreign is resumed."""
        directory = self.trial(number)
        if directory.exists():
            shutil.rmtree(directory)
        directory.mkdir(parents=True)

    def drop_checkpoints(self, numbers: Iterable[int]) -> None:
        """Deletes the resume state of trials that have ended; weights and evaluation stay."""
        for number in numbers:
            (self.trial(number) / CHECKPOINT).unlink(missing_ok=True)

    def live_driver(self) -> str | None:
        """Names the process that drives this study now (``pid 123 on host``), ``None`` if there is none."""
        try:
            descriptor = os.open(self.lock_file, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return self.lock_file.read_text(encoding="utf-8").strip() or "another process"
        finally:
            os.close(descriptor)
        return None

    @contextmanager
    def driving(self, study: str) -> Iterator[None]:
        """Makes this process the study's driver. The kernel frees the lock when the process dies.

        Raises:
            ConfigError: If another process drives it, naming it, or the folder cannot be written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise ConfigError(
                "runs", f"{self.path} cannot be written to ({error.strerror}); set runs to another folder"
            ) from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = self.live_driver() or "another process"
                raise ConfigError(
                    "study", f"study {study!r} is being run by {holder}; wait for it or stop it first"
                ) from None
            if os.fstat(descriptor).st_nlink == 0:  # a search that was refused has just removed the folder
                raise ConfigError("study", f"another search was just refused in {self.path}; start again")
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"pid {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
            try:
                yield
            except FoxtuneError:
                self._discard_untouched()
                raise
        finally:
            os.close(descriptor)

    def _moved_here(self, search: SearchConfig) -> SearchConfig:
        """Corrects what a folder that was copied or moved says of its place.

        A storage that lay in the folder came with it; one that lay outside may have come along.
        """
        old, storage = Path(search.runs) / search.study, search.storage
        file = None if storage is None else storage_file(storage)
        if storage is not None and file is not None and old.is_absolute() and old != self.path:
            here = Path(os.path.normpath(self.path / os.path.relpath(file, old)))
            if file.is_relative_to(old) or here.exists():
                storage = with_file(storage, here)
        return search.model_copy(update={"runs": str(self.path.parent), "storage": storage})

    def _discard_untouched(self) -> None:
        """Removes a folder that holds the lock alone: a refused search leaves nothing behind."""
        if [path.name for path in self.path.iterdir()] == [self.lock_file.name]:
            self.lock_file.unlink()
            self.path.rmdir()
