"""SideStreams: independent work next to the current stream, eagerly and inside a captured graph."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class SideStreams:
    """Numbered CUDA streams that fork from the current stream and are joined again.

    On a device without streams the work simply runs in order.

    Args:
        count: Number of streams.
        device: Where the work runs.
    """

    def __init__(self, count: int, device: torch.device) -> None:
        self._streams: list[torch.cuda.Stream] = []
        self._forked: set[int] = set()
        if device.type == "cuda":
            self._streams = [_stream(number, device) for number in range(count)]

    @contextmanager
    def fork(self, number: int) -> Iterator[None]:
        """Runs the block on stream ``number``, after everything enqueued on the current stream so far."""
        if not self._streams:
            yield
            return
        stream = self._streams[number]
        self._forked.add(number)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            yield

    def join(self, *numbers: int) -> None:
        """Makes the current stream wait for what was forked to streams ``numbers`` since they were joined.

        A stream without work is passed over: inside a capture nothing may wait for work outside it.
        """
        for number in sorted(self._forked.intersection(numbers)):
            torch.cuda.current_stream().wait_stream(self._streams[number])
        self._forked.difference_update(numbers)


@functools.cache
def _stream(number: int, device: torch.device) -> torch.cuda.Stream:
    # One per process: cuBLAS keeps a workspace for every stream it has ever worked on.
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
