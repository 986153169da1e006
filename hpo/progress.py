"""Progress of a search: a live bar on a terminal, plain lines elsewhere. Both go to stderr."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from trainer.reports import EpochReport


class SearchProgress:
    """Counts trials and says what happens; told by the ledger.

    Args:
        trials: Trials that will have ended.
        done: Trials that had ended before.
        time_budget: Seconds, or ``None``.
        console: Where it writes; stderr by default.
    """

    def __init__(
        self, trials: int, done: int = 0, time_budget: float | None = None, console: Console | None = None
    ) -> None:
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._trials = trials
        self._time_budget = time_budget
        self._started = time.monotonic()
        self._done = done
        self._params: dict[int, dict[str, object]] = {}
        self._counts = {"COMPLETE": 0, "PRUNED": 0, "FAIL": 0}
        self._best: tuple[float, int] | None = None
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
        self._refresh()

    def ended(self, number: int, state: str, value: float | None, reason: str | None) -> None:
        """A trial is settled."""
        self._counts[state] += 1
        self._done += 1
        if state == "COMPLETE" and value is not None and (self._best is None or value > self._best[0]):
            self._best = (value, number)
        params = ", ".join(f"{name}={_short(each)}" for name, each in self._params.pop(number, {}).items())
        told = f" {value:.4f}" if value is not None else ""
        why = f" ({reason})" if reason else ""
        self.say(f"trial {number} {state}{told}{why}: {params}  [{self._done}/{self._trials}{self._left()}]")
        self._refresh()

    def _refresh(self) -> None:
        counts = self._counts
        best = "none yet" if self._best is None else f"{self._best[0]:.4f} (trial {self._best[1]})"
        text = (
            f"running {len(self._params)}  complete {counts['COMPLETE']}  pruned {counts['PRUNED']}  "
            f"failed {counts['FAIL']}  best {best}{self._left()}"
        )
        self._bar.update(self._task, description=text, completed=self._done)

    def _left(self) -> str:
        if self._time_budget is None:
            return ""
        left = max(0.0, self._time_budget - (time.monotonic() - self._started))
        return f", {left:.0f} s left"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
