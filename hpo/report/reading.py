"""Everything that a report says of a study, computed once and shown on the page and in Optuna Dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import optuna

from hpo.report.charts import Chart
from hpo.report.equity_charts import drawdown_chart, equity_chart
from hpo.report.findings import Findings, find
from hpo.report.luck_chart import luck_chart
from hpo.report.records import StudyRecord, TrialRecord, read_study
from hpo.report.search_charts import epoch_chart
from hpo.report.seed_charts import seed_chart
from trainer.evaluation_file import EvaluationRows


@dataclass(frozen=True)
class Reading:
    """A study, read and judged.

    Attributes:
        study: Where it was read from.
        record: Its trials.
        best: The winner; None without a COMPLETE trial.
        rows: The winner's out-of-sample bars; None where they are not on record.
        findings: The winner's statistics; None where no score is kept.
        out_of_sample: Charts of the winner's bars.
        luck: All trials against the best of luck.
        epochs: All trials' objectives after every epoch.
    """

    study: optuna.Study
    record: StudyRecord
    best: TrialRecord | None
    rows: EvaluationRows | None
    findings: Findings | None
    out_of_sample: tuple[Chart, ...]
    luck: Chart | None
    epochs: Chart | None

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Those of the winner and of the search as a whole."""
        others = (chart for chart in (self.luck, self.epochs) if chart is not None)
        return (*self.out_of_sample, *others)


def read_report(study: optuna.Study, run_directory: Path) -> Reading:
    """Reads all trials of ``study`` and judges the best.

    Args:
        study: Only read. What an older study does not keep is left out.
        run_directory: The study's folder; the bars of a trial are read from
            ``trials/NNNN/evaluation.parquet`` below it.
    """
    record = read_study(study, run_directory)
    best = record.best
    rows = None if best is None else record.evaluation(best.number)
    if rows is not None and rows.ret.size == 0:
        rows = None
    findings = None if best is None else find(record, best, rows)
    judged = findings is not None and best is not None and not best.degenerate
    return Reading(
        study=study,
        record=record,
        best=best,
        rows=rows,
        findings=findings,
        out_of_sample=() if rows is None else _out_of_sample(rows),
        luck=luck_chart(record, findings) if judged and findings is not None else None,
        epochs=epoch_chart(record, best),
    )


def _out_of_sample(rows: EvaluationRows) -> tuple[Chart, ...]:
    fan = seed_chart(rows)
    return (equity_chart(rows), drawdown_chart(rows), *(() if fan is None else (fan,)))
