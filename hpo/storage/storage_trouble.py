"""Puts what a database refuses, in the middle of a command, into one line with the fix."""

from __future__ import annotations

import sys

from hpo.storage.full_disk import chain

FIXES = (
    (
        ("malformed", "not a database", "file is encrypted"),
        "the file is damaged: put a copy in its place, or save what `sqlite3 FILE .recover` still reads",
    ),
    (("locked",), "another program holds it: end that one, then try again"),
    (("readonly", "read-only", "permission denied"), "give this user the right to write it"),
)
ELSE = "look at the database, then try again"


def storage_trouble(error: BaseException) -> str | None:
    """Says in one line what to do if a database is behind an error.

    Args:
        error: Also one that Optuna raised because of it: its own text guesses at invalid data.

    Returns:
        The line, or ``None`` if the error is of another kind.
    """
    if "sqlalchemy" not in sys.modules:  # then none has been opened
        return None
    from sqlalchemy.exc import DBAPIError

    for each in chain(error):
        if isinstance(each, DBAPIError):
            reason = str(each.orig).splitlines()[0]
            fix = next((fix for words, fix in FIXES if any(word in reason.lower() for word in words)), ELSE)
            return f"storage: the database cannot go on ({reason}); {fix}"
    return None
