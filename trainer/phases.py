"""phase: names a stretch of work for Nsight Systems; nothing where CUDA is not in use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Marks the block as an NVTX range, within the range that surrounds it.

    A profile shows the ranges of a captured graph while it is captured alone: a replay runs no Python.
    ``--no-graph`` shows those of every step.

    Args:
        name: As it appears in the timeline.
    """
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        yield
        return
    torch.cuda.nvtx.range_push(name)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()  # type: ignore[no-untyped-call]
