"""A file that a command writes where --out says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainer.errors import ConfigError


@contextmanager
def writing_out(path: Path) -> Iterator[None]:
    """Around the writing of ``path``, which says in one sentence why it cannot be done.

    Raises:
        ConfigError: For a folder, a path without rights, a full disk.
    """
    try:
        yield
    except OSError as error:
        raise ConfigError(
            "--out", f"{path} cannot be written to ({error.strerror}); choose another file"
        ) from None
