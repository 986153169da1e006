"""Watchdog: ends a trial's process that has not come to its next report, and leaves word of it."""

from __future__ import annotations

import faulthandler
from pathlib import Path
from typing import TextIO

from hpo.study.attributes import TIMEOUT
from trainer.errors import FoxtuneError

HANG = "hang.txt"


class TrialTimeoutError(FoxtuneError):
    """A trial was ended because it did not report in time."""


class Watchdog:
    """Ends this process when a step lasts longer than allowed.

    The clock runs in a thread of C that needs no interpreter lock, so that a call which hangs inside CUDA
    is ended too. It writes the stack of every thread into the trial's ``hang.txt`` before; a file that
    is not empty is therefore what tells this end from any other death of the process.

    Args:
        seconds: Longest step; ``None``: no limit.
        directory: The trial's folder.
    """

    def __init__(self, seconds: float | None, directory: Path) -> None:
        self._seconds = seconds
        self._path = directory / HANG
        self._file: TextIO | None = None
        if seconds is not None:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8")

    def start(self) -> None:
        """Starts the clock of one step."""
        if self._seconds is not None and self._file is not None:
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._file)

    def stop(self) -> None:
        """Stops the clock; nothing happens between two steps."""
        if self._file is not None:
            faulthandler.cancel_dump_traceback_later()

    def close(self) -> None:
        """Stops the clock for good and removes the file if nothing was written."""
        if self._file is None:
            return
        self.stop()
        self._file.close()
        self._file = None
        if not has_timed_out(self._path.parent):
            self._path.unlink(missing_ok=True)


def has_timed_out(directory: Path) -> bool:
    """Whether a watchdog has ended the process of the trial in ``directory``."""
    path = directory / HANG
    return path.exists() and path.stat().st_size > 0


def timeout_reason(seconds: float | None) -> str:
    """Why such a trial failed, in one line."""
    limit = "" if seconds is None else f" for {seconds:g} s"
    return f"{TIMEOUT}: no report{limit} (resources.timeout); its {HANG} shows where the process stood"
