"""Tables of trials and configuration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpo.report.records import StudyRecord, TrialRecord
from hpo.report.wording import number, parameter, plain

MOST_TRIALS = 1000


def trial_table(study: StudyRecord, best: TrialRecord | None) -> str:
    """One line per trial, best first, then those without a value in the order of their numbers."""
    ordered = sorted(study.trials, key=_rank)[:MOST_TRIALS]
    names = list(dict.fromkeys(name for trial in ordered for name in trial.params))
    header = ("Trial", "State", "Objective", "Std. error", "Trades", *map(plain, names), "Reason")
    rows = [_trial_row(trial, names) for trial in ordered]
    marked = {row for row, trial in enumerate(ordered) if best is not None and trial.number == best.number}
    note = ""
    if len(ordered) < len(study.trials):
        note = f"<p>The first {len(ordered):,} of {len(study.trials):,} trials.</p>"
    return table(header, rows, "trials", marked) + note


def _rank(trial: TrialRecord) -> tuple[int, bool, float, int]:
    kind = {"COMPLETE": 0, "PRUNED": 1, "RUNNING": 2, "FAIL": 3}.get(trial.state, 4)
    return kind, trial.degenerate, -(trial.value if trial.value is not None else -np.inf), trial.number


def _trial_row(trial: TrialRecord, names: Sequence[str]) -> list[str]:
    score = trial.score
    return [
        str(trial.number),
        f'<span class="chip {trial.state.lower()}">{trial.state}</span>',
        number(trial.value, 3, missing=""),
        "" if score is None or trial.degenerate else number(score.standard_error),
        "" if score is None else f"{sum(fold.trades for fold in score.folds):,}",
        *(parameter(trial.params[name]) if name in trial.params else "" for name in names),
        plain(trial.reason),
    ]


def configuration(trial: TrialRecord) -> str:
    """The effective configuration of a trial, section by section; searched keys are marked."""
    searched = {name.rpartition(".")[2] for name in trial.params}
    blocks = []
    for section, keys in trial.config.items():
        lines = [
            f"<tr><th>{plain(key)}</th><td>{parameter(_shown(value))}"
            f"{' <em>searched</em>' if key in searched else ''}</td></tr>"
            for key, value in keys.items()
        ]
        blocks.append(f"<div><h3>{plain(section)}</h3><table>{''.join(lines)}</table></div>")
    return f'<div class="sections">{"".join(blocks)}</div>'


def _shown(value: object) -> object:
    if value is None:
        return "default"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def named_cells(names: Sequence[str], cells: Sequence[str]) -> str:
    """Cells of a row that carry their column's name for where the header is not shown; empty ones do not."""
    return "".join(
        f'<td data-name="{name}">{cell}</td>' if cell else "<td></td>"
        for name, cell in zip(names, cells, strict=True)
    )


def card_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose rows a narrow window shows as cards; cells are HTML already, header texts are plain."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join(f"<tr>{named_cells(header, row)}</tr>" for row in rows)
    return f'<table class="cards"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], kind: str, marked: set[int] | None = None
) -> str:
    """Cells are HTML already: whoever makes one from a user's string escapes it."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join(
        f"<tr{' class=best' if index in (marked or set()) else ''}>"
        f"{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"
        for index, row in enumerate(rows)
    )
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
