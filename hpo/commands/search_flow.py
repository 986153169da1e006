"""What ``tune`` and ``resume`` print when a search ends: the trials, the best one, and what to type next."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.wording import plural

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from hpo.outcome import SearchOutcome

REPORT = "report.html"
LONGEST_TABLE = 24  # trials; of more, the best ones are shown


def close_search(outcome: SearchOutcome, summary: Callable[[SearchOutcome, str], None]) -> int:
    """Prints the end of a search, writes its report, and returns the exit code.

    Args:
        outcome: As ``hpo.tuner`` returns it.
        summary: Told the outcome and the report's path, for machines.
    """
    import optuna

    from hpo.dashboard.figures import publish_unless_driven
    from hpo.report import read_report, write_page
    from hpo.storage.postgres import hidden_password
    from hpo.study.studies import open_found
    from hpo.study.trial_files import files_elsewhere

    study = optuna.load_study(study_name=outcome.study, storage=open_found(outcome.storage, outcome.study))
    trials = study.get_trials(deepcopy=False)
    print(f"\n{trial_table(trials, None if outcome.best is None else outcome.best.number)}")
    print(f"\n{end_lines(outcome, trials)}")
    reading = read_report(study, outcome.directory.path)
    report = write_page(reading, outcome.directory.path / REPORT)
    for left in (
        files_elsewhere(study, outcome.directory),
        publish_unless_driven(reading, outcome.directory),
    ):
        if left is not None:
            print(left)
    if outcome.best is not None:
        print(f"\n{best_lines(trials[outcome.best.number])}")
    shown = hidden_password(outcome.storage)
    print(f"\nstudy   {shown}\nreport  {report}\n\n{next_commands(outcome)}", flush=True)
    summary(outcome, str(report))
    return outcome.exit_code


def trial_table(trials: list[FrozenTrial], best: int | None) -> str:
    """Lays the trials out, one line each; of a long list the best ones.

    Args:
        trials: In the order of their numbers.
        best: Number of the best one, which is marked.
    """
    shown = sorted(trials, key=_rank)[:LONGEST_TABLE]
    names = list(dict.fromkeys(name for trial in shown for name in trial.params))
    rows = [["", "trial", "state", "wf_sharpe", *names]]
    for trial in sorted(shown, key=lambda each: each.number):
        mark = "*" if trial.number == best else ""
        values = [_cell(trial.params.get(name)) for name in names]
        rows.append([mark, str(trial.number), trial.state.name, _score_cell(trial), *values])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    text = "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
    left_out = len(trials) - len(shown)
    return text if left_out == 0 else f"{text}\n({plural(left_out, 'more trial')} in the report)"


def end_lines(outcome: SearchOutcome, trials: list[FrozenTrial]) -> str:
    """Says how the search ended and, where a trial has followed another on a device, how fast it ran."""
    from hpo.progress.search_rates import search_rates

    rates = search_rates(trials)
    return f"{outcome.message}\n{rates.line}" if rates.gaps else outcome.message


def best_lines(trial: FrozenTrial) -> str:
    """Says what the best trial is: score, standard error, years of data, searched values."""
    from hpo.study.attributes import read_score

    score = read_score(trial)
    text = f"best trial {trial.number}: wf_sharpe {trial.value:.4f}"
    if score is not None:
        text += f" +- {score.standard_error:.4f} over {score.years:.1f} years of test bars"
    return "\n".join([text, *(f"  {name} = {_cell(value)}" for name, value in trial.params.items())])


def next_commands(outcome: SearchOutcome) -> str:
    """Lists what can be typed now, as it has to be typed.

    A shell that does not find ``foxtune``, as after ``make demo``, is told first how to.
    """
    lines = [f"foxtune dashboard {outcome.place}", _resume(outcome)]
    if outcome.best is not None:
        lines.insert(0, f"foxtune replay {outcome.place} --best")
    activate = Path(sys.prefix) / "bin" / "activate"
    if shutil.which("foxtune") is None and activate.is_file():
        inside = activate.is_relative_to(Path.cwd())
        lines.insert(0, f". {activate.relative_to(Path.cwd()) if inside else activate}")
    return "next:\n" + "\n".join(f"  {line}" for line in lines)


def _resume(outcome: SearchOutcome) -> str:
    """What goes on: as many trials as were asked for, or of a finished search twice those it ran itself."""
    from hpo.outcome import Ended

    if outcome.ended not in (Ended.FINISHED, Ended.NOTHING_TO_DO, Ended.NONE_COMPLETE):
        return f"foxtune resume {outcome.place}"
    done = outcome.complete + outcome.pruned + outcome.failed - outcome.copied
    return f"foxtune resume {outcome.place} --trials {2 * done}"


def _rank(trial: FrozenTrial) -> tuple[bool, float, int]:
    value = trial.value if trial.state.name == "COMPLETE" else None
    return (value is None, -(value or 0.0), trial.number)


def _score_cell(trial: FrozenTrial) -> str:
    from hpo.study.attributes import is_degenerate

    if trial.state.name == "COMPLETE" and trial.value is not None:
        return f"{trial.value:.4f}" + (" degenerate" if is_degenerate(trial) else "")
    last: Mapping[int, float] = trial.intermediate_values
    return f"({last[max(last)]:.4f})" if last else ""


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
