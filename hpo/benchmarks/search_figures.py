"""What the trials of a search tell of its speed, beside trials that ran one process after another."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from optuna.trial import FrozenTrial, TrialState

from hpo.benchmarks.memory_watch import MemoryWatch
from hpo.progress.search_rates import HOUR, search_rates
from hpo.study.attributes import GPU_USED_MIB, WARM, read_machine
from trainer.benchmarks.markdown import markdown_table
from trainer.wording import plural

UUID_LETTERS = 12  # GPU-, and the first eight of its UUID
ROWS = (
    "GPUs",
    "trials",
    "seconds from the first start to the last end",
    "trials an hour",
    "trials an hour and GPU",
    "the same, each GPU's first trial left out",
    "median gap between two trials of a GPU, s",
    "largest gap, s",
    "warm trials",
    "trials of each GPU",
    "neighbours in number on different GPUs",
    "GPU memory before / peak / after, MiB",
    "GPU memory at its first / last trial's end, MiB",
)


@dataclass(frozen=True)
class DeviceTrials:
    """The trials of one GPU.

    Attributes:
        gpu: UUID, cut to what tells GPUs apart.
        trials: How many.
        after_first: Seconds from the end of the first to the end of the last.
        used: GPU memory in use at the end of the first and of the last, MiB; None where it is not stored.
    """

    gpu: str
    trials: int
    after_first: float
    used: tuple[int, int] | None = None


@dataclass(frozen=True)
class SearchFigures:
    """One way to run trials, measured.

    Attributes:
        name: Heading of its column.
        trials: COMPLETE ones.
        seconds: From the first start to the last end.
        gaps: From the end of a trial to the first epoch of the next one on its GPU, seconds.
        warm: Trials that took over buffers and graphs.
        changes: Pairs of consecutive numbers whose GPUs differ.
        devices: In the order of their first trial.
        memory: (before, peak, after) of every GPU, MiB.
    """

    name: str
    trials: int
    seconds: float
    gaps: tuple[float, ...]
    warm: int
    changes: int
    devices: tuple[DeviceTrials, ...]
    memory: tuple[tuple[int, int, int], ...] = ()

    @property
    def hourly(self) -> float:
        """Trials an hour."""
        return self.trials * HOUR / self.seconds

    @property
    def hourly_per_gpu(self) -> float:
        """Trials an hour and GPU."""
        return self.hourly / len(self.devices)

    @property
    def hourly_after_first(self) -> float:
        """Trials an hour and GPU, counted on each from the end of its first trial; NaN without a second."""
        rates = [(each.trials - 1) * HOUR / each.after_first for each in self.devices if each.after_first > 0]
        return sum(rates) / len(self.devices) if rates else float("nan")


def figures_of_search(name: str, trials: Sequence[FrozenTrial], memory: MemoryWatch) -> SearchFigures:
    """Reads a finished search.

    Args:
        name: Heading of its column.
        trials: Of its study.
        memory: What was watched meanwhile.

    Raises:
        ValueError: If no trial is COMPLETE.
    """
    complete = [each for each in trials if each.state == TrialState.COMPLETE]
    done = sorted(complete, key=lambda each: each.number)
    if not done:
        held = plural(len(trials), "trial")
        raise ValueError(f"the study must hold a COMPLETE trial, but got {held} without one")
    gpus = [_gpu(each) for each in done]
    starts = [each.datetime_start.timestamp() for each in done if each.datetime_start is not None]
    return SearchFigures(
        name=name,
        trials=len(done),
        seconds=max(map(_end, done)) - min(starts),
        gaps=tuple(gap.seconds for gap in search_rates(done).gaps),
        warm=sum(bool(each.user_attrs.get(WARM)) for each in done),
        changes=sum(one != other for one, other in itertools.pairwise(gpus)),
        devices=tuple(
            _device(gpu, [each for each, its in zip(done, gpus, strict=True) if its == gpu])
            for gpu in dict.fromkeys(gpus)
        ),
        memory=tuple(zip(memory.before, memory.peak, memory.after, strict=True)),
    )


def figures_of_processes(
    name: str, gpu: str, walls: Sequence[float], trained: Sequence[float], memory: MemoryWatch
) -> SearchFigures:
    """Reads trials that ran in a fresh process each, one after another on one GPU.

    Args:
        name: Heading of the column.
        gpu: UUID, or ``none``.
        walls: Seconds of each process.
        trained: Of them, from the loaded market on; what comes before is the gap.
        memory: What was watched meanwhile.
    """
    return SearchFigures(
        name=name,
        trials=len(walls),
        seconds=sum(walls),
        gaps=tuple(wall - work for wall, work in zip(walls, trained, strict=True)),
        warm=0,
        changes=0,
        devices=(DeviceTrials(gpu[:UUID_LETTERS], len(walls), sum(walls[1:])),),
        memory=tuple(zip(memory.before, memory.peak, memory.after, strict=True)),
    )


def table(columns: Sequence[SearchFigures]) -> str:
    """Lays the ways out side by side."""
    cells = [_cells(each) for each in columns]
    head = ["", *(each.name for each in columns)]
    return markdown_table(head, [[row, *(c[at] for c in cells)] for at, row in enumerate(ROWS)])


def ratios(two: SearchFigures, one: SearchFigures, usual: SearchFigures | None = None) -> str:
    """Compares the rates in a sentence or two."""
    warm = two.hourly_after_first * len(two.devices) / one.hourly_after_first
    searches = (
        f"{two.name} / {one.name}: {two.hourly / one.hourly:.2f} in trials an hour, {warm:.2f} with the "
        "first trials left out."
    )
    if usual is None:
        return searches
    usually, after_first = usual.hourly_per_gpu, usual.hourly_after_first
    return (
        f"{searches} {one.name} / {usual.name}: {one.hourly_per_gpu / usually:.1f} in trials an "
        f"hour and GPU, {one.hourly_after_first / after_first:.1f} with the first left out."
    )


def _cells(each: SearchFigures) -> list[str]:
    return [
        str(len(each.devices)),
        str(each.trials),
        f"{each.seconds:.1f}",
        f"{each.hourly:.0f}",
        f"{each.hourly_per_gpu:.0f}",
        f"{each.hourly_after_first:.0f}",
        f"{statistics.median(each.gaps):.2f}" if each.gaps else "-",
        f"{max(each.gaps):.2f}" if each.gaps else "-",
        f"{each.warm} of {each.trials}",
        ", ".join(f"{device.gpu}: {device.trials}" for device in each.devices),
        f"{each.changes} of {each.trials - 1}" if len(each.devices) > 1 else "-",
        "; ".join(" / ".join(map(str, gpu)) for gpu in each.memory) or "-",
        "; ".join(f"{used[0]} / {used[1]}" for device in each.devices if (used := device.used)) or "-",
    ]


def _device(gpu: str, trials: list[FrozenTrial]) -> DeviceTrials:
    by_end = sorted(trials, key=_end)
    first, last = by_end[0], by_end[-1]
    known = GPU_USED_MIB in first.user_attrs and GPU_USED_MIB in last.user_attrs
    used = (int(first.user_attrs[GPU_USED_MIB]), int(last.user_attrs[GPU_USED_MIB])) if known else None
    return DeviceTrials(gpu, len(trials), _end(last) - _end(first), used)


def _gpu(trial: FrozenTrial) -> str:
    machine = read_machine(trial)
    return "unknown" if machine is None else machine.gpu.split()[-1][:UUID_LETTERS]


def _end(trial: FrozenTrial) -> float:
    return 0.0 if trial.datetime_complete is None else trial.datetime_complete.timestamp()
