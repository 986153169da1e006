"""How long work takes: on the device by CUDA events, end to end by the wall clock."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence

import torch

WARM_UP_CALLS = 10
REPEATS = 60
ROUNDS = 5


def microseconds(run: Callable[[], None]) -> float:
    """Median device time of one call in microseconds, after ten calls of warm-up."""
    for _ in range(WARM_UP_CALLS):
        run()
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(REPEATS + 1)]  # type: ignore[no-untyped-call]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    torch.cuda.synchronize()
    pairs = itertools.pairwise(events)
    return 1e3 * statistics.median(float(first.elapsed_time(second)) for first, second in pairs)


def microseconds_in_turns(
    turns: Sequence[tuple[Callable[[], object], Callable[[], None]]],
) -> list[float]:
    """Median device time of one call of each run, measured in turns: a drifting clock meets all of them.

    Args:
        turns: What to do before a run's turn, and the run.
    """
    times: list[list[float]] = [[] for _ in turns]
    for _ in range(ROUNDS):
        for (prepare, run), own in zip(turns, times, strict=True):
            prepare()
            own.append(microseconds(run))
    return [statistics.median(own) for own in times]


def wall_seconds(run: Callable[[], object], repeats: int = 7) -> float:
    """Median seconds of one call until the device has done its work, after one call of warm-up."""
    run()
    seconds: list[float] = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        started = time.perf_counter()
        run()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
