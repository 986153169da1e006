"""PostgreSQL as a storage: which driver a URL is opened with, its password, and how long it is waited for."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from trainer.errors import ConfigError

DRIVERS = ("pg8000", "psycopg", "psycopg2")  # in this order; the first is the one that the extra installs
CONNECT_SECONDS = 20
PASSWORD = re.compile(r"(?<=:)[^:@/\s]+(?=@)")
INSTALL = "pip install 'foxtune[postgres]'"


def is_postgres(url: str) -> bool:
    """Whether a storage is a PostgreSQL database, however its URL is written."""
    return url.partition(":")[0].partition("+")[0] in ("postgresql", "postgres")


def with_driver(url: str) -> URL:
    """Completes a URL: an installed driver if it names none, PGUSER and PGPASSWORD if it needs them.

    Args:
        url: ``postgresql://..``, ``postgres://..`` or ``postgresql+DRIVER://..``.

    Raises:
        ConfigError: If neither the named driver nor, without a name, any driver is installed.
    """
    parsed = make_url(url)
    named = parsed.drivername.partition("+")[2]
    found = [driver for driver in ((named,) if named else DRIVERS) if find_spec(driver) is not None]
    if not found:
        raise ConfigError(
            "storage",
            f"{hidden_password(url)} needs {'the driver ' + named if named else 'a driver'}, which is not "
            f"installed: {INSTALL}",
        )
    completed = parsed.set(drivername=f"postgresql+{found[0]}")
    if found[0] == "pg8000":  # the others read these by themselves
        completed = completed.set(
            username=completed.username or os.environ.get("PGUSER"),
            password=completed.password or os.environ.get("PGPASSWORD"),
        )
    return completed


def connect_arguments(url: URL) -> dict[str, Any]:
    """What a driver needs to give up on a server that does not answer, and to notice one that has gone."""
    name = "timeout" if url.get_driver_name() == "pg8000" else "connect_timeout"
    return {name: CONNECT_SECONDS}


def hidden_password(url: str) -> str:
    """A storage URL as it may be printed: its password, if it has one, as ``***``.

    In a text that is no URL what stands where the password would is hidden too.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return PASSWORD.sub("***", url)
    if "password" in parsed.query:
        parsed = parsed.update_query_dict({"password": "***"})
    return parsed.render_as_string(hide_password=True) if parsed.password or parsed.query else url


def has_password(url: str) -> bool:
    """Whether a storage URL holds a password."""
    return hidden_password(url) != url
