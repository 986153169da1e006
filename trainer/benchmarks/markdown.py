"""markdown_table: rows of text as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lays rows out below their headings, which carry the units.

    Args:
        head: One heading per column.
        rows: As many cells each.

    Raises:
        ValueError: If a row has another number of cells than the head.
    """
    lines = [list(head), ["---"] * len(head)]
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"`len(row) == len(head)` must hold, but got {row!r} under {head!r}")
        lines.append(list(row))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
