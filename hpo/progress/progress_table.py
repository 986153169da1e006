"""The live table that people see on a terminal while a search runs."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hpo.durations import format_duration
from hpo.gpus.nvml import Nvml
from hpo.gpus.resources import Gpu
from hpo.progress.progress import trial_line
from hpo.progress.standing import EndedTrial, RunningTrial, Standing, params_text, score_text
from trainer.errors import CudaSetupError
from trainer.wording import plural

REFRESHES_PER_SECOND = 2
SHOWN_TRIALS = 12
GIB = 2**30
GpuUse = Callable[[], list[str]]


class TableDisplay:
    """A table that is drawn again in place; what ended scrolls past above it.

    Args:
        gpu_use: A line per GPU, asked at every drawing.
        console: The terminal; stderr by default.
    """

    def __init__(self, gpu_use: GpuUse = list, console: Console | None = None) -> None:
        self._gpu_use = gpu_use
        self._console = console or Console(stderr=True, highlight=False)
        self._study = ""
        self._standing = Standing(0)
        self._live = Live(
            self,
            console=self._console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # a pipe gets what is printed for it, not this terminal
            redirect_stderr=False,
        )

    def open(self, study: str, standing: Standing) -> None:
        """Starts drawing."""
        self._study, self._standing = study, standing
        self._live.start()

    def say(self, message: str) -> None:
        """Prints a line above the table."""
        self._console.print(message, markup=False, soft_wrap=True)

    def started(self, number: int, params: dict[str, object]) -> None:
        """The next drawing shows it."""

    def ended(self, trial: EndedTrial) -> None:
        """Prints the trial's line above the table."""
        self.say(trial_line(trial, self._standing))

    def close(self) -> None:
        """Stops drawing and removes the table."""
        self._live.stop()

    def __rich__(self) -> Group:
        standing = self._standing
        bar = Table.grid()
        bar.add_row(ProgressBar(total=max(1, standing.trials), completed=standing.done, width=40))
        return Group(bar, *(Text(line, no_wrap=True) for line in self._lines()), _running_table(standing))

    def _lines(self) -> list[str]:
        standing, counts = self._standing, self._standing.counts
        left = standing.seconds_left()
        ends = "" if left is None else f", about {format_duration(left)} left"
        lines = [
            f"{self._study}: {standing.done}/{plural(standing.trials, 'trial')} in "
            f"{format_duration(standing.elapsed)}{ends}",
            f"running {len(standing.running)}  complete {counts['COMPLETE']}  pruned {counts['PRUNED']}  "
            f"failed {counts['FAIL']}",
        ]
        if standing.best is not None:
            best = standing.best
            lines.append(f"best {score_text(best.value, best.error)} (trial {best.number})")
        return [*lines, *_speed(standing), *self._gpu_use()]


def gpu_use(gpus: tuple[Gpu, ...], nvml: Nvml | None) -> list[str]:
    """How busy and how full the search's GPUs are, a line each; none where the driver does not answer."""
    if nvml is None:
        return []
    lines = []
    for gpu in gpus:
        try:
            memory, busy = nvml.memory(gpu.uuid), nvml.utilisation(gpu.uuid)
        except CudaSetupError:
            continue  # a MIG slice has no utilisation of its own
        used = f"{memory.used / GIB:.1f} of {memory.total / GIB:.1f} GiB"
        lines.append(f"GPU {gpu.index} {gpu.name}: {busy} % busy, {used}")
    return lines


def _speed(standing: Standing) -> list[str]:
    hourly, steps = standing.trials_per_hour(), standing.member_steps_per_second()
    parts = [] if hourly is None else [f"{hourly:.3g} trials/h"]
    parts += [] if steps is None else [f"{steps:,.0f} member-steps/s"]
    return ["  ".join(parts)] if parts else []


def _running_table(standing: Standing) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("trial", "epoch", "score"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("parameters", no_wrap=True, overflow="ellipsis")
    for number, trial in sorted(standing.running.items())[:SHOWN_TRIALS]:
        table.add_row(str(number), *_newest(trial), params_text(trial.params))
    return table


def _newest(trial: RunningTrial) -> tuple[str, str]:
    if trial.last is None:
        return "-", "-"
    score = trial.last.score
    return f"{trial.last.epoch}/{trial.last.epochs}", score_text(score.value, score.standard_error)
