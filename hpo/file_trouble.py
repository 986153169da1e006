"""Puts what the file system refuses, in the middle of a command, into one line with the fix."""

from __future__ import annotations


def file_trouble(error: BaseException) -> str | None:
    """Says in one line what to do if a path that cannot be read or written is the error.

    Args:
        error: As a command raised it. One that was raised because of another is judged by itself.

    Returns:
        The line, or ``None`` if the error is of another kind or names no path.
    """
    if not isinstance(error, OSError):
        return None
    path = error.filename2 or error.filename  # of a rename the place that was wanted
    if not isinstance(path, str):
        return None
    return f"{path}: {error.strerror}; look at that path and its rights, or name another one"
