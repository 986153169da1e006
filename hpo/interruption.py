"""Interruption: the first signal asks the trials to save and stop, a second one or a short wait ends it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

GRACE_SECONDS = 3.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SearchStopped(KeyboardInterrupt):
    """Leaves Ray's loop at once. Not an Exception: nothing on the way may take it for a trial's error.

    Raised inside a call of Ray's core it arrives as a plain KeyboardInterrupt, the only kind that the core
    passes on, so that is what has to be caught.

    Args:
        exit_code: With which a command ends that it leaves.
    """

    def __init__(self, exit_code: int) -> None:
        super().__init__()
        self.exit_code = exit_code


class Interruption:
    """Handles SIGINT and SIGTERM while a search runs; a context manager for the main thread.

    In any other thread signals cannot be handled and nothing is installed.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.loss: str | None = None
        self._waiting = False
        self._deferring = False
        self._closed = False
        self._process = os.getpid()
        self._thread = threading.get_ident()
        self._previous: dict[signal.Signals, signal.Handlers | object] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """128 + signal, as shells say it."""
        return 128 + (self.signal or 0)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {each: signal.getsignal(each) for each in (*SIGNALS, signal.SIGALRM)}
            self.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._previous:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for each, handler in self._previous.items():
                signal.signal(each, handler)  # type: ignore[arg-type]

    def install(self) -> None:
        """Installs the handlers again; starting Ray replaces the one of SIGTERM."""
        if self._previous:
            for each in SIGNALS:
                signal.signal(each, self._on_signal)
            signal.signal(signal.SIGALRM, self._on_alarm)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """What the block writes belongs together: a signal that comes meanwhile leaves at its end."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False
        self._leave_if_requested()

    def wait_for_trials(self) -> None:
        """From now on the first signal only sets :attr:`requested`; before, it leaves at once."""
        self._leave_if_requested()  # a library may have swallowed what the handler raised in it
        self._waiting = True

    def limit(self, seconds: float) -> None:
        """Leaves Ray's loop in ``seconds`` if it has not ended by then."""
        if self._previous:
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def lose(self, reason: str) -> None:
        """Leaves Ray's loop, because there is no cluster any more; may be called from any thread."""
        self.loss = reason
        if self._previous:
            signal.pthread_kill(self._thread, signal.SIGALRM)

    def close(self) -> None:
        """Ignores further signals: what is left to do, settling the study, is quick and must not be torn."""
        self._closed = True
        if self._previous:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _leave_if_requested(self) -> None:
        if self.requested:
            raise SearchStopped(self.exit_code)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # forked, and about to become one of Ray's processes
            return
        if self._closed or self._deferring:
            self.signal = self.signal or number
            return
        again = self.requested
        self.signal = number
        if again or not self._waiting:
            raise SearchStopped(self.exit_code)
        self.limit(GRACE_SECONDS)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        if not self._closed:
            raise SearchStopped(self.exit_code)
