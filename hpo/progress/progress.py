"""Progress of a search, told by the ledger: a live table on a terminal, a line per trial elsewhere, or JSON.

Table and lines go to stderr. With JSON every line of stdout is an object: ``start``, ``trial_started``,
``trial_finished``, and in the end ``summary``; ``time`` is UTC.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from rich.console import Console

from hpo.progress.standing import EndedTrial, Standing, params_text, score_text
from trainer.reports import EpochReport

if TYPE_CHECKING:
    from hpo.outcome import SearchOutcome

Now = Callable[[], datetime]


def _utc() -> datetime:
    return datetime.now(UTC)


class Display(Protocol):
    """Shows where a search stands."""

    def open(self, study: str, standing: Standing) -> None:
        """The search begins; ``standing`` is kept up to date."""

    def say(self, message: str) -> None:
        """Shows a line for the user."""

    def started(self, number: int, params: dict[str, object]) -> None:
        """A trial starts or goes on."""

    def ended(self, trial: EndedTrial) -> None:
        """A trial is settled."""

    def close(self) -> None:
        """The search is over."""


class SearchProgress:
    """Takes the ledger's news and passes them on; a context manager for the time of the search.

    Args:
        study: Name.
        standing: What is known so far.
        display: Where it is shown.
    """

    def __init__(self, study: str, standing: Standing, display: Display) -> None:
        self._study = study
        self._standing = standing
        self._display = display

    def __enter__(self) -> Self:
        self._display.open(self._study, self._standing)
        return self

    def __exit__(self, *error: object) -> None:
        self._display.close()

    def started(self, number: int, params: dict[str, object]) -> None:
        """A trial starts or goes on."""
        self._standing.start(number, params)
        self._display.started(number, params)

    def epoch(self, number: int, report: EpochReport) -> None:
        """A trial has done an epoch."""
        self._standing.report(number, report)

    def ended(self, number: int, state: str, value: float | None, reason: str | None) -> None:
        """A trial is settled."""
        self._display.ended(self._standing.end(number, state, value, reason))


class LineDisplay:
    """One line with a time stamp per finished trial, for log files.

    Args:
        console: Where it writes; stderr by default.
        now: The time.
    """

    def __init__(self, console: Console | None = None, now: Now = _utc) -> None:
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._now = now
        self._standing = Standing(0)

    def open(self, study: str, standing: Standing) -> None:
        """Remembers what the search knows."""
        self._standing = standing

    def say(self, message: str) -> None:
        """Prints a line."""
        self._console.print(message, markup=False)

    def started(self, number: int, params: dict[str, object]) -> None:
        """Says nothing: the end of the trial will."""

    def ended(self, trial: EndedTrial) -> None:
        """Prints the trial's line."""
        self.say(f"{self._now():%Y-%m-%d %H:%M:%SZ}  {trial_line(trial, self._standing)}")

    def close(self) -> None:
        """Nothing is open."""


class JsonDisplay:
    """One JSON object per line.

    Args:
        stream: Where the objects go.
        say: Takes what is for people.
        now: The time.
    """

    def __init__(self, stream: TextIO, say: Callable[[str], None], now: Now = _utc) -> None:
        self._stream = stream
        self._say = say
        self._now = now
        self._standing = Standing(0)

    def open(self, study: str, standing: Standing) -> None:
        """Writes ``start``."""
        self._standing = standing
        best = None if standing.best is None else asdict(standing.best)
        self._write("start", {"study": study, "trials": standing.trials, "done": standing.done, "best": best})

    def say(self, message: str) -> None:
        """Passes a line on to people."""
        self._say(message)

    def started(self, number: int, params: dict[str, object]) -> None:
        """Writes ``trial_started``."""
        self._write("trial_started", {"number": number, "params": params})

    def ended(self, trial: EndedTrial) -> None:
        """Writes ``trial_finished``."""
        left = self._standing.seconds_left()
        counted = {"done": self._standing.done, "trials": self._standing.trials, "seconds_left": left}
        self._write("trial_finished", {**asdict(trial), **counted})

    def close(self) -> None:
        """Nothing is open; the outcome is written by :meth:`summary`."""

    def summary(self, outcome: SearchOutcome, report: str | None) -> None:
        """Writes ``summary``: how the search ended, its best trial, and where the report lies."""
        best = None if outcome.best is None else asdict(outcome.best)
        self._write(
            "summary",
            {
                "study": outcome.study,
                "ended": outcome.ended.value,
                "exit_code": outcome.exit_code,
                "complete": outcome.complete,
                "pruned": outcome.pruned,
                "failed": outcome.failed,
                "waiting": outcome.waiting,
                "reason": outcome.reason,
                "best": best,
                "seconds": outcome.seconds,
                "folder": str(outcome.directory.path),
                "report": report,
            },
        )

    def _write(self, event: str, values: dict[str, object]) -> None:
        record = {"event": event, "time": f"{self._now():%Y-%m-%dT%H:%M:%S.%fZ}", **values}
        self._stream.write(json.dumps(record, allow_nan=False) + "\n")
        self._stream.flush()


def trial_line(trial: EndedTrial, standing: Standing) -> str:
    """What became of a trial, and where the search stands."""
    told = "" if trial.value is None else f" {score_text(trial.value, trial.error)}"
    why = "" if trial.reason is None else f" ({trial.reason})"
    counted = f"[{standing.done}/{standing.trials}, {standing.outlook()}]"
    return f"trial {trial.number} {trial.state}{told}{why}: {params_text(trial.params)}  {counted}"
