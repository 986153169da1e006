"""The end of a trial's log: what a person reads first when a trial has failed."""

from __future__ import annotations

from pathlib import Path

MOST_BYTES = 48 * 1024


def log_tail(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Returns the last whole lines of a file, at most ``most_bytes``; a cut beginning is said so.

    Args:
        path: The log; one that does not exist has no lines.
        most_bytes: How much is read.
    """
    if not path.exists():
        return ""
    with path.open("rb") as log:
        size = log.seek(0, 2)
        log.seek(max(0, size - most_bytes))
        text = log.read(most_bytes).decode("utf-8", errors="replace")
    if size <= most_bytes:
        return text
    _, _, whole = text.partition("\n")
    return f"({size - len(whole.encode()):,} bytes before this are in {path})\n{whole}"


def last_lines(text: str, count: int, longest: int) -> list[str]:
    """The last ``count`` lines of ``text``, each cut after ``longest`` characters."""
    return [line if len(line) <= longest else f"{line[:longest]} ..." for line in text.splitlines()[-count:]]
