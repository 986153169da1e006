"""Device time of every kernel of one fused step, by torch's profiler."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile

from trainer.benchmarks.fused_step import FusedStep
from trainer.benchmarks.markdown import markdown_table
from trainer.benchmarks.step_shapes import Shape

SHAPE, PRECISION = Shape(15, 256, 2**17), "bf16"
WARM_UP_STEPS, STEPS = 5, 20
LONGEST_NAME = 60


@dataclass(frozen=True)
class KernelTime:
    """One kernel.

    Attributes:
        name: As the profiler prints it.
        launches: Per step.
        microseconds: Per step, all its launches together.
    """

    name: str
    launches: float
    microseconds: float


def measure(shape: Shape, precision: str) -> list[KernelTime]:
    """Profiles steps launched one by one; the slowest kernel comes first."""
    stack = FusedStep(shape, precision)
    for _ in range(WARM_UP_STEPS):
        stack.step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiled:
        for _ in range(STEPS):
            stack.step()
        torch.cuda.synchronize()
    times = [
        KernelTime(event.key, event.count / STEPS, event.self_device_time_total / STEPS)
        for event in profiled.key_averages()
        if event.self_device_time_total > 0
    ]
    return sorted(times, key=lambda each: -each.microseconds)


def table() -> str:
    """Profiles the usual stack. Kernels overlap on several streams, so the sum exceeds the step's time."""
    times = measure(SHAPE, PRECISION)
    total = KernelTime("sum", sum(each.launches for each in times), sum(each.microseconds for each in times))
    return markdown_table(
        ["kernel", "launches per step", "us per step"],
        [[_short(each.name), f"{each.launches:g}", f"{each.microseconds:.1f}"] for each in (*times, total)],
    )


def _short(name: str) -> str:
    """A name fit for a table: products of cuBLAS have names of hundreds of letters."""
    plain = name.removeprefix("void ").replace("|", "/")
    return plain if len(plain) <= LONGEST_NAME else f"{plain[: LONGEST_NAME - 2]}.."
