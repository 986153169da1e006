"""GraphedCallable: warm-up, capture and replay of a device-only function behind one call."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from trainer.kernels.loader import gathering, import_cupy
from trainer.phases import phase


class GraphedCallable:
    """Captures ``function`` into a CUDA graph once and replays it.

    The function may launch kernels and torch operations on preallocated tensors; it must not allocate,
    synchronise or read a device value on the host. Warm-up calls run on a side stream, as capture
    does, and they are real calls: ``reset`` is called after them, to undo what they changed.

    Args:
        function: Device-only work, without arguments or results.
        reset: Called after warm-up, before capture; restores the tensors that ``function`` changes.
        enabled: False calls the function instead of replaying, for debugging (``--no-graph``).
        warm_up: Called to warm up in place of ``function``: a shorter stretch with the same launches.
    """

    def __init__(
        self,
        function: Callable[[], None],
        reset: Callable[[], None],
        *,
        enabled: bool = True,
        warm_up: Callable[[], None] | None = None,
    ) -> None:
        self._function = function
        self._graph: torch.cuda.CUDAGraph | None = None
        if enabled:
            with phase("capture"):
                self._graph = _captured(function, reset, warm_up or function)

    def replay(self) -> None:
        """Queues one run of the function on the current stream."""
        if self._graph is None:
            self._function()
        else:
            self._graph.replay()


@functools.cache
def _stream(device: int) -> torch.cuda.Stream:
    # One per process, for warm-up and capture: cuBLAS keeps a workspace for every stream it has ever worked
    # on, and has taken it by the time of the capture.
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _captured(
    function: Callable[[], None], reset: Callable[[], None], warm_up: Callable[[], None]
) -> torch.cuda.CUDAGraph:
    side = _stream(torch.cuda.current_device())
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        with gathering():  # a cold start compiles all kernels at once
            warm_up()
        warm_up()  # loads every kernel, and lets cuBLAS take its workspace of this stream
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    reset()
    graph = torch.cuda.CUDAGraph()
    with _capture_into(graph):
        function()
    return graph


@contextmanager
def _capture_into(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """Captures what is launched meanwhile.

    ``torch.cuda.graph`` would also give all cached memory back to the driver before, for the sake of a
    capture that allocates; this one does not, and the memory is asked for again at once. Python's garbage
    collector is kept out: freeing an older graph would invalidate the capture.
    """
    torch.cuda.synchronize()
    enabled = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.stream(_stream(torch.cuda.current_device())):
            graph.capture_begin()
            try:
                yield
            finally:
                graph.capture_end()
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True)
class Allocations:
    """What was allocated meanwhile.

    Attributes:
        torch_blocks: Blocks that torch's caching allocator handed out.
        cupy_bytes: Bytes by which CuPy's memory pool grew.
    """

    torch_blocks: int
    cupy_bytes: int


NO_ALLOCATIONS = Allocations(0, 0)


def allocations_of_a_capture(function: Callable[[], None]) -> Allocations:
    """Captures ``function`` once more and counts what both allocators gave out meanwhile.

    A function that is fit for capture yields ``NO_ALLOCATIONS``. torch serves allocations inside a capture
    from a private pool without complaint, so only its counter shows them. CuPy's pool is emptied before, so
    that it cannot serve anything from what it kept. What torch itself allocates to begin a capture, the
    seed and offset of its random generator, is not the function's and is not counted.
    """
    graph = torch.cuda.CUDAGraph()
    pool = import_cupy().get_default_memory_pool()
    pool.free_all_blocks()
    with _capture_into(graph):
        before = _blocks(), int(pool.total_bytes())
        function()
        after = _blocks(), int(pool.total_bytes())
    return Allocations(after[0] - before[0], after[1] - before[1])


def _blocks() -> int:
    return int(torch.cuda.memory_stats()["allocation.all.allocated"])
