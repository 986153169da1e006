"""Notes of Optuna Dashboard: Markdown that people may edit, so only the own section is ever replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence

HEADING = re.compile(r"^## ", re.MULTILINE)
MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~])")


def with_section(note: str, heading: str, body: str) -> str:
    """Replaces the section under ``## heading``, or appends it; the rest of ``note`` stays as it is.

    Args:
        note: What stands there now.
        heading: Plain text.
        body: Markdown without a heading of the second level.
    """
    section = f"## {heading}\n\n{body.strip()}\n"
    start = re.search(rf"^## {re.escape(heading)}$", note, re.MULTILINE)
    if start is None:
        return f"{note.rstrip()}\n\n{section}" if note.strip() else section
    after = HEADING.search(note, start.end())
    rest = "" if after is None else f"\n{note[after.start() :]}"
    return f"{note[: start.start()]}{section}{rest}"


def literal(text: object) -> str:
    """Escapes what Markdown would read as markup, on one line."""
    return MARKUP.sub(r"\\\1", " ".join(str(text).split()))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; cells are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
