"""Opens the storage of a study: SQLite by default, PostgreSQL or a journal file for several machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import psutil
import sqlalchemy
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError

from trainer.errors import ConfigError

JOURNAL = "journal:"
LOCK_WAIT_SECONDS = 60
NETWORK_FILE_SYSTEMS = {
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "glusterfs", "ceph",
    "fuse.glusterfs", "fuse.sshfs", "fuse.ceph", "afs",
}  # fmt: skip
ALTERNATIVES = (
    "give a PostgreSQL URL (postgresql+psycopg://user@host/database) "
    "or a journal file (journal:/path/study.log)"
)


def open_storage(url: str) -> BaseStorage:
    """Opens ``url``, creating its tables if it is new.

    Args:
        url: ``sqlite:///file``, any URL of SQLAlchemy, or ``journal:FILE``.

    Raises:
        ConfigError: For a URL that cannot be understood or reached, or SQLite on a network file system.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if url.startswith(JOURNAL):
        return _open_journal(url, Path(url.removeprefix(JOURNAL)))
    file = sqlite_file(url)
    try:
        if file is None:
            return RDBStorage(url, engine_kwargs={"pool_pre_ping": True})
        return _open_sqlite(url, file)
    except ImportError as error:
        raise ConfigError(
            "storage",
            f"cannot use {url!r} ({_line(error)}); install the driver (pip install 'foxtune[postgres]' for "
            "PostgreSQL), or give a journal file (journal:/path/study.log)",
        ) from None
    except (ArgumentError, NoSuchModuleError) as error:
        raise ConfigError("storage", f"cannot use {url!r} ({_line(error)}); {ALTERNATIVES}") from None
    except (DatabaseError, OSError) as error:
        raise ConfigError(
            "storage",
            f"cannot open {url!r} ({_line(error)}); check the address, the rights and that it is a database",
        ) from None


def sqlite_file(url: str) -> Path | None:
    """Returns the file of an SQLite URL, ``None`` for every other URL."""
    if url.startswith(JOURNAL):
        return None
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigError(
            "storage", f"must be a URL or journal:FILE, but got {url!r}; {ALTERNATIVES}"
        ) from None
    if parsed.get_backend_name() != "sqlite":
        return None
    if not parsed.database or parsed.database == ":memory:":
        raise ConfigError("storage", f"must name a file, but got {url!r}; write sqlite:///study.db")
    return Path(parsed.database)


def file_system(path: Path) -> str:
    """Returns the type of the file system that holds ``path``, e.g. ``ext4``; empty if unknown."""
    absolute = path.absolute()
    mounts = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    holding = [mount for mount in mounts if absolute.is_relative_to(mount)]
    return str(mounts[max(holding, key=lambda mount: len(mount.parts))]) if holding else ""


def _open_journal(url: str, path: Path) -> JournalStorage:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return JournalStorage(JournalFileBackend(str(path)))
    except (OSError, ValueError) as error:  # ValueError: the file holds other text
        raise ConfigError(
            "storage",
            f"cannot open {url!r} ({_line(error)}); give a journal file of its own that can be written",
        ) from None


def _open_sqlite(url: str, file: Path) -> RDBStorage:
    kind = file_system(file)
    if kind in NETWORK_FILE_SYSTEMS:
        raise ConfigError(
            "storage",
            f"SQLite loses data on a network file system, but {file} lies on {kind}; {ALTERNATIVES}",
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    storage = RDBStorage(url, engine_kwargs={"connect_args": {"timeout": LOCK_WAIT_SECONDS}})
    sqlalchemy.event.listen(storage.engine, "connect", _prefer_write_ahead_log)
    storage.engine.dispose()
    return storage


def _prefer_write_ahead_log(connection: Any, record: Any) -> None:
    # Readers (report, dashboard) then never block the driver, and a killed driver leaves a whole file.
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _line(error: BaseException) -> str:
    return str(error).splitlines()[0]
