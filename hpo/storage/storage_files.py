"""In which file a storage's URL keeps its study; opens nothing, so that a training does without Optuna."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from hpo.storage.postgres import hidden_password
from trainer.errors import ConfigError

JOURNAL = "journal:"
ALTERNATIVES = (
    "give a PostgreSQL URL (postgresql://user@host/database) or a journal file (journal:/path/study.log)"
)


def sqlite_file(url: str) -> Path | None:
    """Returns the file of an SQLite URL, ``None`` for every other URL.

    Raises:
        ConfigError: If it is no URL, or one of SQLite that names no file.
    """
    if url.startswith(JOURNAL):
        return None
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # ValueError: of a port that is no number
        raise ConfigError(
            "storage", f"must be a URL or journal:FILE, but got {hidden_password(url)!r}; {ALTERNATIVES}"
        ) from None
    if parsed.get_backend_name() != "sqlite":
        return None
    if not parsed.database or parsed.database == ":memory:":
        raise ConfigError("storage", f"must name a file, but got {url!r}; write sqlite:///study.db")
    return Path(parsed.database)


def storage_file(url: str) -> Path | None:
    """Returns the file of an SQLite URL or a journal, ``None`` for the URL of a server."""
    return Path(url.removeprefix(JOURNAL)) if url.startswith(JOURNAL) else sqlite_file(url)


def missing_file(url: str) -> str | None:
    """Says of a storage whose file holds nothing yet so, e.g. ``study.db does not exist``; makes no file."""
    file = storage_file(url)
    if file is None or (file.exists() and file.stat().st_size > 0):
        return None
    return f"{file} {'is empty' if file.exists() else 'does not exist'}"


def with_file(url: str, file: Path) -> str:
    """Returns the URL of a storage like ``url`` in another file."""
    if url.startswith(JOURNAL):
        return f"{JOURNAL}{file}"
    return make_url(url).set(database=str(file)).render_as_string(hide_password=False)
