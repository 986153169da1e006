"""Where a search stands: trials by state, the best one, how fast it goes and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from hpo.durations import format_duration
from trainer.reports import EpochReport
from trainer.walk_forward import DEGENERATE_SCORE


@dataclass(frozen=True)
class BestSoFar:
    """The best COMPLETE trial.

    Attributes:
        value: Its score.
        number: Its number.
        error: Standard error of the score; ``None`` if unknown.
    """

    value: float
    number: int
    error: float | None = None


@dataclass(frozen=True)
class EndedTrial:
    """A trial that was settled.

    Attributes:
        number: Its number.
        state: ``COMPLETE``, ``PRUNED`` or ``FAIL``.
        value: Its score; of a pruned trial the last one, if there is one.
        error: Standard error of the score; ``None`` if it never reported.
        reason: Why it failed.
        params: Its searched values.
        seconds: From its start in this run to its end.
    """

    number: int
    state: str
    value: float | None
    error: float | None
    reason: str | None
    params: dict[str, object]
    seconds: float


@dataclass
class RunningTrial:
    """A trial under way; ``last`` is its newest report."""

    params: dict[str, object]
    since: float
    last: EpochReport | None = None


class Standing:
    """Counts what the ledger tells of a search.

    Args:
        trials: Trials that will have ended.
        done: Trials that had ended before.
        time_budget: Seconds, or ``None``.
        best: The best trial so far.
        updates: Gradient steps of an epoch, for the rate of member-steps.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        trials: int,
        done: int = 0,
        time_budget: float | None = None,
        best: BestSoFar | None = None,
        updates: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trials = trials
        self.done = done
        self.best = best
        self.counts = {"COMPLETE": 0, "PRUNED": 0, "FAIL": 0}
        self.running: dict[int, RunningTrial] = {}
        self._time_budget = time_budget
        self._updates = updates
        self._clock = clock
        self._started = clock()
        self._done_before = done

    @property
    def elapsed(self) -> float:
        """Seconds since this run began."""
        return self._clock() - self._started

    def start(self, number: int, params: dict[str, object]) -> None:
        """A trial starts or goes on."""
        self.running[number] = RunningTrial(params, self._clock())

    def report(self, number: int, report: EpochReport) -> None:
        """A trial has done an epoch."""
        self.running[number].last = report

    def end(self, number: int, state: str, value: float | None, reason: str | None) -> EndedTrial:
        """A trial is settled."""
        trial = self.running.pop(number)
        self.counts[state] += 1
        self.done += 1
        error = None if trial.last is None else trial.last.score.standard_error
        floor = DEGENERATE_SCORE if self.best is None else self.best.value
        if state == "COMPLETE" and value is not None and value > floor:
            self.best = BestSoFar(value, number, error)
        return EndedTrial(number, state, value, error, reason, trial.params, self._clock() - trial.since)

    def seconds_left(self) -> float | None:
        """Estimates the time left from the trials done in this run, running ones by their share of epochs.

        Returns:
            Seconds, at most what is left of the budget; None before there is anything to go by.
        """
        elapsed = self.elapsed
        shares = sum(each.last.epoch / each.last.epochs for each in self.running.values() if each.last)
        work = self.done - self._done_before + shares
        remaining = max(0.0, self.trials - self._done_before - work)
        bounds = [] if work <= 0 else [elapsed * remaining / work]
        if self._time_budget is not None:
            bounds.append(max(0.0, self._time_budget - elapsed))
        return min(bounds, default=None)

    def trials_per_hour(self) -> float | None:
        """Trials that ended in this run, per hour of it; None before the first."""
        ended = self.done - self._done_before
        return None if ended == 0 or self.elapsed <= 0 else 3600 * ended / self.elapsed

    def member_steps_per_second(self) -> float | None:
        """Gradient steps times members, per second of training, over the running trials; None if unknown."""
        last = [trial.last for trial in self.running.values() if trial.last is not None]
        rates = [self._updates * len(each.score.folds) / each.seconds for each in last if each.seconds > 0]
        return sum(rates) or None

    def outlook(self) -> str:
        """The best value so far and the time left."""
        best = "none yet" if self.best is None else f"{score_text(self.best.value, self.best.error)}"
        where = "" if self.best is None else f" (trial {self.best.number})"
        left = self.seconds_left()
        return f"best {best}{where}" + ("" if left is None else f", about {format_duration(left)} left")


def score_text(value: float, error: float | None) -> str:
    """A score with its standard error, where it is known."""
    return f"{value:.4f}" if error is None else f"{value:.4f} +- {error:.4f}"


def params_text(params: dict[str, object]) -> str:
    """Searched values in one line."""
    return ", ".join(f"{name}={_short(value)}" for name, value in params.items())


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
