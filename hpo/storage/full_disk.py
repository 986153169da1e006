"""Tells a full disk from every other error, whichever library met it."""

from __future__ import annotations

import errno
from collections.abc import Iterator

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
SQLITE_FULL = "database or disk is full"  # SQLite's words; its number is lost on the way through SQLAlchemy


def full_disk(error: BaseException) -> str | None:
    """Says in one line what to do if a full disk or an exhausted quota is behind an error.

    Args:
        error: Also one that another library raised because of it, as torch and Optuna do.

    Returns:
        The line, or ``None`` if the error is of another kind.
    """
    for each in chain(error):
        if isinstance(each, OSError) and each.errno in NO_SPACE:
            where = "" if each.filename is None else f" for {each.filename}"
            what = "disk quota exceeded" if each.errno == errno.EDQUOT else "no space left on the disk"
            return f"disk full: {what}{where}; free space, then `foxtune resume`"
        if SQLITE_FULL in str(each):
            return "disk full: no space left for the study's database; free space, then `foxtune resume`"
    return None


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error, the one that it was raised because of, and so on."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
