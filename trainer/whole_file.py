"""whole_file: a file that is written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"  # ends the name of a file that is being written, or whose writer was killed


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Gives a path beside ``path`` to write to, and renames it to ``path`` at the end of the block.

    A reader sees the old file or the new one. An error in the block leaves the old one and nothing else.

    Args:
        path: In a folder that exists.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
