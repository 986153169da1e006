"""Numbers with their nouns, for texts."""

from __future__ import annotations


def nouns(count: float, noun: str) -> str:
    """``trial`` for one, ``trials`` for any other number."""
    return noun if count == 1 else f"{noun}s"


def plural(count: float, noun: str, form: str = "") -> str:
    """``1 trial``, ``2 trials``.

    Args:
        count: How many.
        noun: Of one; the plural is made by an s.
        form: How the number is written, as in a format string.
    """
    return f"{count:{form}} {nouns(count, noun)}"
