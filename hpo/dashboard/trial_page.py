"""The page of a trial in Optuna Dashboard: a note, its equity picture and the end of its log."""

from __future__ import annotations

import logging

import numpy as np
import optuna
from optuna.trial import TrialState

from hpo.dashboard.artifact_files import attach, open_store
from hpo.dashboard.equity_picture import equity_picture
from hpo.dashboard.log_tail import last_lines, log_tail
from hpo.dashboard.notes import literal, table, write_section
from hpo.study import attributes
from hpo.study.run_directory import LOG, RunDirectory
from trainer.errors import DataError
from trainer.evaluation_file import EVALUATION_FILE, EvaluationRows, read_evaluation
from trainer.reports import WalkForwardScore
from trainer.statistics.compounding import total_return
from trainer.statistics.drawdown import max_drawdown

EQUITY = "equity.svg"
NOTE_LINES = 10  # of a failed trial's log, in its note
NOTE_LINE_LENGTH = 140

logger = logging.getLogger("foxtune")


class TrialPages:
    """Writes the pages of trials that are about to be settled.

    Args:
        directory: The study's folder.
        artifacts: Whether pictures and logs are kept; notes always are.
    """

    def __init__(self, directory: RunDirectory, artifacts: bool) -> None:
        self._directory = directory
        self._artifacts = artifacts

    def write(self, trial: optuna.Trial, state: TrialState, value: float | None, reason: str | None) -> None:
        """Writes note and artifacts. What cannot be written costs the page, never the trial.

        Args:
            trial: Still RUNNING; its attributes are complete.
            state: What it is going to be.
            value: Its objective if it will be COMPLETE.
            reason: Why it failed.
        """
        rows = self._rows(trial.number) if state == TrialState.COMPLETE else None
        log = log_tail(self._directory.trial(trial.number) / LOG)
        score = attributes.read_score(trial)
        if self._artifacts and state != TrialState.PRUNED:
            try:
                self._attach(trial, rows, score, log)
            except OSError as error:
                logger.warning("trial %d has no artifacts in the dashboard: %s", trial.number, error)
        body = "\n\n".join(
            part
            for part in (
                _headline(state, value, score),
                _failure(reason, log) if state == TrialState.FAIL else "",
                "" if score is None else _folds(score),
                "" if rows is None else _comparison(rows),
                _where(trial),
            )
            if part
        )
        write_section(trial, f"Trial {trial.number}", body)

    def _rows(self, number: int) -> EvaluationRows | None:
        """The bars, if the trial wrote them where this process can read them."""
        path = self._directory.trial(number) / EVALUATION_FILE
        try:
            rows = read_evaluation(path)
        except DataError as error:
            logger.info("trial %d has no equity picture: %s", number, error)
            return None
        return rows if rows.ret.size else None

    def _attach(
        self, trial: optuna.Trial, rows: EvaluationRows | None, score: WalkForwardScore | None, log: str
    ) -> None:
        store = open_store(self._directory.artifacts)
        if rows is not None:
            ratio = "" if score is None else f"Sharpe {_ratio(score)}, "
            title = f"trial {trial.number}: {ratio}net, out of sample, folds joined"
            attach(store, trial, EQUITY, "image/svg+xml", equity_picture(title, rows))
        if log:
            attach(store, trial, LOG, "text/plain", log)


def _headline(state: TrialState, value: float | None, score: WalkForwardScore | None) -> str:
    if state == TrialState.FAIL:
        return "**FAIL**"
    if score is None:
        return f"**{state.name}**"
    objective = "" if value is None else f", objective {value:.4f}"
    words = (
        f"**{state.name}**{objective}; Sharpe ratio per year **{_ratio(score)}** over {score.years:.1f} years"
    )
    if score.degenerate:
        return f"{words}. Degenerate, so infeasible: {literal('; '.join(score.degenerate))}."
    if len(score.per_seed) > 1:
        words += f"; standard deviation over {len(score.per_seed)} seeds {score.seed_spread:.2f}"
    return f"{words}. After the last epoch that it ran." if state == TrialState.PRUNED else f"{words}."


def _ratio(score: WalkForwardScore) -> str:
    mean = sum(ratio for _, ratio in score.per_seed) / len(score.per_seed)
    return f"{mean:.2f} \N{PLUS-MINUS SIGN} {score.standard_error:.2f}"


def _failure(reason: str | None, log: str) -> str:
    lines = last_lines(log, NOTE_LINES, NOTE_LINE_LENGTH)
    text = f"Reason: {literal(reason or 'not on record')}"
    if not lines:
        return text
    return f"{text}\n\nLast lines of its log:\n\n" + "\n".join(f"    {line}" for line in lines)


def _folds(score: WalkForwardScore) -> str:
    folds = sorted({fold.fold for fold in score.folds})
    rows = []
    for seed, ratio in score.per_seed:
        own = {each.fold: each for each in score.folds if each.seed == seed}
        cells = (f"{own[fold].sharpe:.2f}" if fold in own else "" for fold in folds)
        trades = sum(each.trades for each in own.values())
        rows.append((str(seed), f"{ratio:.2f}", *cells, f"{trades:,}"))
    header = ("seed", "Sharpe", *(f"fold {fold}" for fold in folds), "trades")
    return table(header, rows)


def _comparison(rows: EvaluationRows) -> str:
    seeds = rows.of_each_seed()
    market = rows.longest_seed().benchmark
    returns, depths = [total_return(own.ret) for own in seeds], [max_drawdown(own.ret) for own in seeds]
    lines = [
        ("trial, mean over seeds", f"{np.mean(returns):.1%}", f"{np.mean(depths):.1%}"),
        ("buy and hold", f"{total_return(market):.1%}", f"{max_drawdown(market):.1%}"),
    ]
    return table(("", "total return", "deepest drawdown"), lines)


def _where(trial: optuna.Trial) -> str:
    known = trial.user_attrs  # every question copies all of them
    seconds, node = known.get(attributes.SECONDS), known.get(attributes.NODE)
    words = [] if seconds is None else [f"trained {float(seconds):.1f} s"]
    if node is not None:
        words.append(f"on {literal(node)}, GPU {literal(known.get(attributes.GPU))}")
    return " ".join(words)
