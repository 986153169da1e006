"""Progress of a search: a live bar on a terminal, plain lines elsewhere. Both go to stderr."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from trainer.reports import EpochReport
from trainer.walk_forward import DEGENERATE_SCORE


class SearchProgress:
    """Counts trials and says what happens; told by the ledger.

    Args:
        trials: Trials that will have ended.
        done: Trials that had ended before.
        time_budget: Seconds, or ``None``.
        best: Value and number of the best trial so far.
        console: Where it writes; stderr by default.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        trials: int,
        done: int = 0,
        time_budget: float | None = None,
        best: tuple[float, int] | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._trials = trials
        self._time_budget = time_budget
        self._clock = clock
        self._started = clock()
        self._done_before = self._done = done
        self._shares: dict[int, float] = {}  # how far each running trial is, in [0, 1]
        self._params: dict[int, dict[str, object]] = {}
        self._counts = {"COMPLETE": 0, "PRUNED": 0, "FAIL": 0}
        self._best = best
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=trials, completed=done)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, message: str) -> None:
        """Prints a line above the bar."""
        self._console.print(message, markup=False)

    def started(self, number: int, params: dict[str, object]) -> None:
        """A trial starts or goes on."""
        self._params[number] = params
        self._refresh()

    def epoch(self, number: int, report: EpochReport) -> None:
        """A trial has done an epoch."""
        self._shares[number] = report.epoch / report.epochs
        self._refresh()

    def ended(self, number: int, state: str, value: float | None, reason: str | None) -> None:
        """A trial is settled."""
        self._counts[state] += 1
        self._done += 1
        self._shares.pop(number, None)
        floor = DEGENERATE_SCORE if self._best is None else self._best[0]
        if state == "COMPLETE" and value is not None and value > floor:
            self._best = (value, number)
        params = ", ".join(f"{name}={_short(each)}" for name, each in self._params.pop(number, {}).items())
        told = f" {value:.4f}" if value is not None else ""
        why = f" ({reason})" if reason else ""
        self.say(
            f"trial {number} {state}{told}{why}: {params}  [{self._done}/{self._trials}, {self._outlook()}]"
        )
        self._refresh()

    def _refresh(self) -> None:
        counts = self._counts
        text = (
            f"running {len(self._params)}  complete {counts['COMPLETE']}  pruned {counts['PRUNED']}  "
            f"failed {counts['FAIL']}  {self._outlook()}"
        )
        self._bar.update(self._task, description=text, completed=self._done)

    def _outlook(self) -> str:
        """The best value so far and the time left."""
        best = "none yet" if self._best is None else f"{self._best[0]:.4f} (trial {self._best[1]})"
        left = self.seconds_left()
        return f"best {best}" + ("" if left is None else f", about {_duration(left)} left")

    def seconds_left(self) -> float | None:
        """Estimates the time left from the trials done in this run, running ones by their share of epochs.

        Returns:
            Seconds, at most what is left of the budget; None before there is anything to go by.
        """
        elapsed = self._clock() - self._started
        work = self._done - self._done_before + sum(self._shares.values())
        remaining = max(0.0, self._trials - self._done_before - work)
        bounds = [] if work <= 0 else [elapsed * remaining / work]
        if self._time_budget is not None:
            bounds.append(max(0.0, self._time_budget - elapsed))
        return min(bounds, default=None)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
