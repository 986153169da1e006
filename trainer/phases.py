"""phase: names a stretch of work for Nsight Systems, and for whoever measures a training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch


class PhaseClock(Protocol):
    """Is told when phases begin and end; they nest."""

    def begin(self, name: str) -> None:
        """A phase begins."""

    def end(self, name: str) -> None:
        """The innermost phase ends, also by an error."""


_clock: PhaseClock | None = None


@contextmanager
def clocked(clock: PhaseClock) -> Iterator[None]:
    """Tells ``clock`` of every phase of this process within the block."""
    global _clock
    before, _clock = _clock, clock
    try:
        yield
    finally:
        _clock = before


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Marks the block as an NVTX range, within the range that surrounds it; nothing where CUDA is not in use.

    A profile shows the ranges of a captured graph while it is captured alone: a replay runs no Python.
    ``--no-graph`` shows those of every step.

    Args:
        name: As it appears in the timeline.
    """
    clock, marked = _clock, torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    if marked:
        torch.cuda.nvtx.range_push(name)  # type: ignore[no-untyped-call]
    if clock is not None:
        clock.begin(name)
    try:
        yield
    finally:
        if clock is not None:
            clock.end(name)
        if marked:
            torch.cuda.nvtx.range_pop()  # type: ignore[no-untyped-call]
