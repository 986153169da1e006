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

WARM_UP_CALLS = 3


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
def _warm_up_stream(device: int) -> torch.cuda.Stream:
    # One per process: cuBLAS keeps a workspace for every stream it has ever worked on.
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _captured(
    function: Callable[[], None], reset: Callable[[], None], warm_up: Callable[[], None]
) -> torch.cuda.CUDAGraph:
    side = _warm_up_stream(torch.cuda.current_device())
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        with gathering():  # a cold start compiles all kernels at once
            warm_up()
        for _ in range(WARM_UP_CALLS):
            warm_up()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    reset()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with _no_collection(), torch.cuda.graph(graph):
        function()
    return graph


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keeps Python's garbage collector out of a capture: freeing an older graph would invalidate it.

    Nothing is collected before: that takes a tenth of a second, and what is garbage can wait.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
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
    that it cannot serve anything from what it kept.
    """
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    pool = import_cupy().get_default_memory_pool()
    pool.free_all_blocks()
    before = _blocks(), int(pool.total_bytes())
    with _no_collection(), torch.cuda.graph(graph):
        function()
    return Allocations(_blocks() - before[0], int(pool.total_bytes()) - before[1])


def _blocks() -> int:
    return int(torch.cuda.memory_stats()["allocation.all.allocated"])
