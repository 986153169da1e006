"""Writes the report: reads the study once, computes the findings once, joins the sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna

from hpo.progress.search_rates import search_rates
from hpo.report.cost_chart import cost_chart
from hpo.report.cost_ranking import cost_ranking, ranking_table
from hpo.report.cost_sweep import USUAL_COSTS, no_sweep, sweep_chart
from hpo.report.findings import Findings
from hpo.report.fold_table import fold_table
from hpo.report.looks import looks
from hpo.report.next_steps import next_steps
from hpo.report.page import PageSection, page
from hpo.report.reading import Reading, read_report
from hpo.report.records import TrialRecord
from hpo.report.search_charts import parameter_charts
from hpo.report.tables import configuration, trial_table
from hpo.report.trust import trust_table
from hpo.report.verdict import verdict
from hpo.report.wording import moment, number, plain
from trainer.whole_file import whole_file

NO_BARS = (
    "<p>The out-of-sample bars of this trial are not on record (evaluation.parquet is missing or torn).</p>"
)


def write_report(study: optuna.Study, run_directory: Path, path: Path) -> Path:
    """Reads a study and writes its page: `read_report`, then `write_page`."""
    return write_page(read_report(study, run_directory), path)


def write_page(reading: Reading, path: Path, costs: Sequence[float] = USUAL_COSTS) -> Path:
    """Writes one HTML file with everything a reader needs, scripts included; it opens offline.

    Args:
        reading: The study; what it does not keep is said to be missing.
        path: The file to write; its folder is made, a file already there is replaced in one step.
        costs: Basis points at which the winner's stored positions are scored again.

    Returns:
        ``path``.
    """
    record, best = reading.record, reading.best
    sections = [
        PageSection("Verdict", verdict(record, best, reading.findings)),
        *_winner_sections(reading),
        PageSection(
            "Trials", f'<div class="tall">{trial_table(record, best)}</div>' if record.trials else ""
        ),
        PageSection("Epochs", "" if reading.epochs is None else reading.epochs.html),
        PageSection("Parameters", parameter_charts(reading.study, record) if record.trials else ""),
        PageSection("Other trading costs", _at_other_costs(reading, costs)),
        PageSection("Cost of the search", _cost(reading)),
        PageSection("Effective configuration", _configuration(best)),
        PageSection("Next", next_steps(record, best)),
    ]
    html = page(f"foxtune: {record.name}", _subtitle(best, reading.findings), sections)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial:
        partial.write_text(html, encoding="utf-8")
    return path


def _winner_sections(reading: Reading) -> list[PageSection]:
    best = reading.best
    if best is None:
        return []
    curves = "".join(chart.html for chart in reading.out_of_sample) or NO_BARS
    folds = "<p>The study keeps no scores of the folds.</p>"
    if best.score is not None:
        folds = fold_table(best.score, best.statistics, reading.rows)
    trust = "" if reading.findings is None or best.degenerate else trust_table(reading.findings)
    luck = "" if reading.luck is None else reading.luck.html
    return [
        PageSection(f"Out of sample: trial {best.number}", curves),
        PageSection("Folds", folds),
        PageSection("How far to trust it", trust + luck),
        PageSection("After the search", looks(reading.record)),
    ]


def _at_other_costs(reading: Reading, costs: Sequence[float]) -> str:
    best, rows, findings = reading.best, reading.rows, reading.findings
    if best is None or findings is None:
        return ""
    periods_per_year = findings.periods_per_year
    chart = None if rows is None else sweep_chart(best, rows, costs, periods_per_year)
    if chart is None:
        return f"<p>Other costs cannot be told: {plain(no_sweep(reading.record, best, rows))}.</p>"
    ranking = cost_ranking(reading.record, best, costs, periods_per_year)
    return chart.html + ("" if ranking is None else ranking_table(ranking))


def _cost(reading: Reading) -> str:
    rates = search_rates(reading.study.get_trials(deepcopy=False))
    speed = f"<p>{rates.line}.</p>" if rates.timed else ""  # trials without a timed start ran elsewhere
    chart = cost_chart(reading.record)
    return speed + ("" if chart is None else chart.html)


def _configuration(best: TrialRecord | None) -> str:
    if best is None:
        return ""
    if not best.config:
        return "<p>The study keeps no configuration of this trial.</p>"
    return configuration(best)


def _subtitle(best: TrialRecord | None, findings: Findings | None) -> str:
    """What the numbers stand on: data, bars per year."""
    if best is None:
        return "Hyperparameter search, scored by walk-forward Sharpe ratio."
    data: Mapping[str, Any] = best.data or best.config.get("data", {})
    parts = [str(data[key]) for key in ("name", "path") if data.get(key)]
    words = ["Data: " + " ".join(dict.fromkeys(parts))] if parts else []
    if data.get("rows") and data.get("first") and data.get("last"):
        first, last = (moment(str(data[key])).removesuffix(" 00:00") for key in ("first", "last"))
        words.append(f"{data['rows']:,} bars from {first} to {last}")
    if data.get("hash"):
        words.append(f"hash {str(data['hash'])[:12]}")
    if findings is not None:
        words.append(f"{number(findings.periods_per_year, 0)} bars per year")
    return "; ".join(words)
