"""SearchOutcome: how a search ended, and the exit code that says so."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, TrialState

from hpo.study.attributes import FORKED_FROM, best_trial, read_score
from hpo.study.run_directory import RunDirectory

Say = Callable[[str], None]  # prints a line for the user


class Ended(enum.Enum):
    """Why a search ended."""

    FINISHED = "finished"
    NOTHING_TO_DO = "nothing to do"
    TIME_BUDGET = "time budget"
    INTERRUPTED = "interrupted"
    BROKEN_OFF = "broken off"
    TOO_MANY_FAILURES = "too many failures"
    NONE_COMPLETE = "no trial completed"


@dataclass(frozen=True)
class Best:
    """The best COMPLETE trial.

    Attributes:
        number: Its number.
        value: Score of its last epoch.
        standard_error: Of the score; ``None`` if it was not stored.
        params: Its searched values.
    """

    number: int
    value: float
    standard_error: float | None
    params: dict[str, object]


@dataclass(frozen=True)
class SearchOutcome:
    """How a search ended.

    Attributes:
        study: Name.
        storage: URL.
        directory: The study's folder.
        ended: Why.
        complete: COMPLETE trials, copied ones included; the others likewise.
        pruned: PRUNED trials.
        failed: FAILed trials.
        waiting: Trials that `foxtune resume` continues.
        copied: Trials among them that a fork took over; they do not count towards ``trials``.
        best: The best trial, if one is COMPLETE and not degenerate.
        reason: The commonest reason of failure, if any trial failed; of a search that was broken off, why.
        exit_code: 0 well, 1 the search failed, 130 or 143 after a signal.
        seconds: Wall time.
    """

    study: str
    storage: str
    directory: RunDirectory
    ended: Ended
    complete: int
    pruned: int
    failed: int
    waiting: int
    copied: int
    best: Best | None
    reason: str | None
    exit_code: int
    seconds: float

    @property
    def place(self) -> str:
        """Name of the study as the commands take it from here, with its folder if that is not ``runs``."""
        runs = self.directory.path.parent
        return self.study if runs == Path.cwd() / "runs" else f"{self.study} --runs {runs}"

    @property
    def message(self) -> str:
        """What happened, in one or two sentences."""
        counts = (
            f"{self.complete} complete, {self.pruned} pruned, {self.failed} failed, {self.waiting} waiting"
        )
        spent = f"{counts} in {self.seconds:.0f} s"
        go_on = f"continue with `foxtune resume {self.place}`"
        texts = {
            Ended.FINISHED: f"search finished: {spent}",
            Ended.NOTHING_TO_DO: f"nothing to do: every trial that was asked for has ended ({counts})",
            Ended.TIME_BUDGET: f"time budget used up: {spent}; {go_on}",
            Ended.INTERRUPTED: f"interrupted: {spent}; {go_on}",
            Ended.BROKEN_OFF: f"broken off: {spent}; {self.reason}",
            Ended.TOO_MANY_FAILURES: f"stopped, too many trials failed in a row: {spent}",
            Ended.NONE_COMPLETE: f"no trial completed: {spent}",
        }
        if self.reason is None or self.ended is Ended.BROKEN_OFF:
            return texts[self.ended]
        return f"{texts[self.ended]}; commonest reason of failure: {self.reason}"


def summarise(
    study: optuna.Study,
    storage: str,
    directory: RunDirectory,
    ended: Ended,
    reason: str | None,
    exit_code: int,
    seconds: float,
) -> SearchOutcome:
    """Counts the trials of a study that is searched no more.

    Args:
        study: Read as it is now.
        storage: Its URL.
        directory: Its folder.
        ended: Why.
        reason: The commonest reason of failure, or why it was broken off.
        exit_code: See :class:`SearchOutcome`.
        seconds: Wall time.
    """
    trials = study.get_trials(deepcopy=False)
    states = [trial.state for trial in trials]
    best = best_trial(trials)
    return SearchOutcome(
        study=study.study_name,
        storage=storage,
        directory=directory,
        ended=ended,
        complete=states.count(TrialState.COMPLETE),
        pruned=states.count(TrialState.PRUNED),
        failed=states.count(TrialState.FAIL),
        waiting=states.count(TrialState.WAITING),
        copied=sum(FORKED_FROM in trial.user_attrs for trial in trials),
        best=None if best is None else _best(best),
        reason=reason,
        exit_code=exit_code,
        seconds=seconds,
    )


def _best(trial: FrozenTrial) -> Best:
    score = read_score(trial)
    error = None if score is None else score.standard_error
    return Best(trial.number, float(trial.value or 0.0), error, dict(trial.params))
