"""The run directory of foxtune train: which one, its record, and what a training that ends early leaves."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.errors import ConfigError, FoxtuneError
from trainer.file_names import CHECKPOINT
from trainer.whole_file import whole_file

if TYPE_CHECKING:
    from hpo.effective_config import Effective

RECORD = "config.toml"


def run_directory(out: Path | None, resume: bool, runs: Path) -> Path:
    """Chooses the run directory.

    Args:
        out: As the user gave it.
        resume: Whether an earlier training is to be continued.
        runs: Where new directories are made.

    Raises:
        ConfigError: Nothing to continue, or something that would be overwritten.
    """
    if resume:
        if out is not None:
            return out
        earlier = sorted(runs.glob(f"*/{CHECKPOINT}"), key=lambda path: path.stat().st_mtime)
        if not earlier:
            raise ConfigError("--resume", f"needs an earlier training, but {runs} holds none; give --out DIR")
        return earlier[-1].parent
    if out is None:
        return _unused(runs / time.strftime("%Y%m%d-%H%M%S"))
    if (out / CHECKPOINT).exists():
        raise ConfigError(
            "--out", f"{out} already holds a training; continue it with --resume or choose another --out"
        )
    return out


def require_writable(directory: Path) -> None:
    """Makes the run directory.

    Raises:
        ConfigError: If it cannot be made or written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise ConfigError(
            "--out", f"{directory} cannot be written to ({error.strerror}); choose another folder"
        ) from None


def write_record(directory: Path, effective: Effective) -> None:
    """Writes the effective configuration beside the checkpoint, where --resume finds it."""
    from hpo.effective_config import to_toml

    with whole_file(directory / RECORD) as partial:
        partial.write_text(to_toml(effective), encoding="utf-8")


@contextmanager
def ending_early(directory: Path, *, resumed: bool) -> Iterator[None]:
    """Around a training: says how an interrupted one goes on; one that was refused leaves nothing behind.

    Args:
        directory: The run directory.
        resumed: The directory was there before; nothing is removed from it.

    Raises:
        ConfigError: For an allocation that failed.
    """
    try:
        yield
    except KeyboardInterrupt:
        if _discard_unstarted(directory):
            print("\nstopped before the first checkpoint; nothing to continue")
        else:
            print(f"\nstopped; continue with: foxtune train --resume --out {directory}")
        raise
    except (FoxtuneError, MemoryError, RuntimeError) as error:
        if not resumed:
            _discard_unstarted(directory)
        shortage = None if isinstance(error, FoxtuneError) else _memory_shortage(error)
        if shortage is None:
            raise
        raise shortage from error


def _discard_unstarted(directory: Path) -> bool:
    """Removes the record of a training that has no checkpoint, and its folder if that is empty."""
    if (directory / CHECKPOINT).exists():
        return False
    (directory / RECORD).unlink(missing_ok=True)
    if not any(directory.iterdir()):
        directory.rmdir()
    return True


def _memory_shortage(error: BaseException) -> ConfigError | None:
    """The user's error for an allocation that failed; None for any other error."""
    text = str(error)
    if not isinstance(error, MemoryError) and "allocate memory" not in text and "out of memory" not in text:
        return None
    tried = re.search(r"allocate ([\d.]+ \w+)", text)
    size = f" for {tried[1]}" if tried else ""
    return ConfigError(
        "agent.batch_size",
        f"there is no memory{size}; lower it, replay.capacity, agent.num_atoms or walk_forward.folds "
        "(foxtune train --dry-run lists the buffers)",
    )


def _unused(directory: Path) -> Path:
    number, candidate = 1, directory
    while candidate.exists():
        number += 1
        candidate = directory.with_name(f"{directory.name}-{number}")
    return candidate
