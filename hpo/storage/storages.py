"""Opens the storage of a study: SQLite by default, PostgreSQL or a journal file for several machines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from hpo.storage.journal_file import mend_tail, require_journal
from hpo.storage.patient_storage import PatientStorage
from hpo.storage.postgres import connect_arguments, hidden_password, is_postgres, with_driver
from hpo.storage.storage_files import ALTERNATIVES, JOURNAL, sqlite_file
from trainer.errors import ConfigError

LOCK_WAIT_SECONDS = 60
NETWORK_FILE_SYSTEMS = {
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "glusterfs", "ceph", "afs", "wekafs",
    "fuse.glusterfs", "fuse.sshfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse",
    "fuse.juicefs", "fuse.blobfuse2", "fuse.mount-s3", "mount-s3", "davfs", "pvfs2", "orangefs",
}  # fmt: skip
MOUNTS = Path("/proc/self/mounts")
OCTAL = re.compile(r"\\([0-7]{3})")  # a blank in a mount point is written \040


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
        if is_postgres(url):
            return _open_postgres(url)
        if file is None:
            return RDBStorage(url, engine_kwargs={"pool_pre_ping": True})
        return _open_sqlite(url, file)
    except ImportError as error:
        raise ConfigError(
            "storage",
            f"cannot use {hidden_password(url)!r} ({_line(error)}); install the database's driver, "
            "or give a journal file (journal:/path/study.log)",
        ) from None
    except (ArgumentError, NoSuchModuleError) as error:
        shown = hidden_password(url)
        raise ConfigError("storage", f"cannot use {shown!r} ({_line(error)}); {ALTERNATIVES}") from None
    except (DBAPIError, OSError) as error:
        raise ConfigError(
            "storage",
            f"cannot open {hidden_password(url)!r} ({_line(error)}); check the address, the rights "
            "and that it is a database",
        ) from None
    except RuntimeError as error:
        raise _other_version(hidden_password(url), error) from None


def file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """Returns the type of the file system that holds ``path``, e.g. ``ext4``; empty if unknown.

    Args:
        path: May not exist yet; links are followed.
        mounts: Lines of device, mount point and type, as the kernel writes them.
    """
    place = path.resolve()
    found, depth = "", -1
    for line in mounts.read_text(encoding="utf-8").splitlines() if mounts.exists() else ():
        _, point, kind, *_ = line.split(" ")
        mount = Path(OCTAL.sub(lambda match: chr(int(match[1], 8)), point))
        if place.is_relative_to(mount) and len(mount.parts) >= depth:  # the later of two covers the earlier
            found, depth = kind, len(mount.parts)
    return found


def _open_journal(url: str, path: Path) -> JournalStorage:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = JournalFileSymlinkLock(str(path))
        require_journal(path, lock)
        mend_tail(path, lock)
        return JournalStorage(JournalFileBackend(str(path), lock))
    except (OSError, ValueError, KeyError) as error:  # the latter two: the file holds other text
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


def _open_postgres(url: str) -> RDBStorage:
    completed = with_driver(url)
    return PatientStorage(
        completed.render_as_string(hide_password=False),
        engine_kwargs={"pool_pre_ping": True, "connect_args": connect_arguments(completed)},
    )


def _prefer_write_ahead_log(connection: Any, record: Any) -> None:
    # Readers (report, dashboard) then never block the driver, and a killed driver leaves a whole file.
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _other_version(shown: str, error: RuntimeError) -> ConfigError:
    """The user's error where Optuna says that the tables are of another version of it."""
    if "storage upgrade" in str(error):
        age, fix = "an older", f"save a copy, then `optuna storage upgrade --storage {shown}`"
    else:
        age, fix = "a newer", "update Optuna"
    return ConfigError(
        "storage", f"{shown!r} was made by {age} version than this Optuna {optuna.__version__}; {fix}"
    )


def _line(error: BaseException) -> str:
    return str(error).splitlines()[0]
