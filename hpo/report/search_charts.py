"""Charts of the search: every trial's epochs, which parameters mattered, and where good values lie."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import optuna
import plotly.graph_objects as go
from optuna.exceptions import ExperimentalWarning
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

from hpo.colours import INK
from hpo.report.charts import STATE_COLOURS, Chart, figure, rounded, to_html
from hpo.report.parallel_chart import parallel_chart
from hpo.report.records import StudyRecord, TrialRecord
from hpo.report.wording import number, plain, plural

MOST_CURVES = 400
FEWEST_TRIALS = 8  # COMPLETE and not degenerate; fewer say nothing about a parameter
DEGENERATE_SCORE = -10.0


def epoch_chart(study: StudyRecord, best: TrialRecord | None) -> Chart | None:
    """The objective after every epoch; None if no trial reported one."""
    drawn = [trial for trial in study.trials if trial.curve]
    if not drawn:
        return None
    left_out = max(0, len(drawn) - MOST_CURVES)
    drawn = sorted(drawn, key=lambda trial: -(trial.value or -math.inf))[:MOST_CURVES]
    chart = figure("objective (Sharpe, per year)", "epoch")
    for state, colour in STATE_COLOURS.items():
        own = [trial for trial in drawn if trial.state == state and trial is not best]
        if own:
            _add_curves(chart, own, state, colour, width=1.0)
    if best is not None and best.curve:
        _add_curves(chart, [best], f"best, trial {best.number}", INK, width=2.5)
    if max(step for trial in drawn for step, _ in trial.curve) <= 20:
        chart.update_xaxes(dtick=1)  # otherwise few epochs get ticks between whole numbers
    usable = [value for trial in drawn for _, value in trial.curve if value > DEGENERATE_SCORE]
    below = sum(value <= DEGENERATE_SCORE for trial in drawn for _, value in trial.curve)
    notes = []
    if usable:
        margin = 0.05 * (max(usable) - min(usable)) + 0.1
        chart.update_yaxes(range=[min(usable) - margin, max(usable) + margin])
        if below:
            score = number(DEGENERATE_SCORE, 0)
            notes.append(f"Below: {plural(below, 'epoch')} with the degenerate score {score}.")
    if left_out:
        notes.append(f"Drawn are the best {MOST_CURVES} of {MOST_CURVES + left_out:,} trials.")
    return Chart("epochs", "Objective after every epoch", chart, 380, " ".join(notes))


def _add_curves(
    chart: go.Figure,
    trials: Sequence[TrialRecord],
    name: str,
    colour: str,
    width: float,
) -> None:
    steps: list[int | None] = []
    values: list[float | None] = []
    numbers: list[int | None] = []
    for trial in trials:
        steps += [*(step for step, _ in trial.curve), None]
        values += [*rounded([value for _, value in trial.curve]), None]
        numbers += [*[trial.number] * len(trial.curve), None]
    chart.add_scatter(
        x=steps,
        y=values,
        customdata=numbers,
        name=name,
        mode="lines+markers",
        marker={"size": 3 + width},
        line={"color": colour, "width": width},
        opacity=1.0 if width > 1 else 0.55,
        hovertemplate="trial %{customdata}, epoch %{x}: %{y:.3f}<extra></extra>",
    )


def parameter_charts(study: optuna.Study, record: StudyRecord) -> str:
    """Importance and one slice per parameter; a sentence where there is too little to show."""
    usable = [trial for trial in record.complete if not trial.degenerate and trial.value is not None]
    if len(usable) < FEWEST_TRIALS or len({trial.value for trial in usable}) < 2:
        return (
            f"<p>Importance and slices need {FEWEST_TRIALS} COMPLETE trials with usable, different scores; "
            f"there are {len(usable)}.</p>"
        )
    names = [name for name in _names(usable) if len({str(t.params.get(name)) for t in usable}) > 1]
    if not names:
        return "<p>No parameter took more than one value.</p>"
    slices = "".join(_slice(name, index, usable) for index, name in enumerate(names))
    parallel = parallel_chart(usable, names).html
    return f'{_importance(study)}{parallel}<div class="slices">{slices}</div>'


def _names(trials: Sequence[TrialRecord]) -> list[str]:
    return sorted({name for trial in trials for name in trial.params})


def _importance(study: optuna.Study) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Older Optuna releases mark this evaluator experimental; it is the default of newer ones.
        warnings.simplefilter("ignore", ExperimentalWarning)
        importances = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    doubts = "".join(
        f"<p>{plain(doubt)}</p>" for doubt in dict.fromkeys(str(each.message) for each in caught)
    )
    ordered = sorted(importances.items(), key=lambda item: item[1])
    chart = figure("", "share (%)")
    chart.add_bar(
        x=rounded([share * 100 for _, share in ordered]),
        y=[plain(name) for name, _ in ordered],
        orientation="h",
        marker={"color": STATE_COLOURS["COMPLETE"]},
        hovertemplate="%{y}: %{x:.1f} %<extra></extra>",
    )
    chart.update_yaxes(type="category")
    return (
        to_html(
            "Importance of the parameters: share of the explained variation",
            chart,
            "importance",
            80 + 26 * len(ordered),
        )
        + doubts
    )


def _slice(name: str, index: int, trials: Sequence[TrialRecord]) -> str:
    own = [trial for trial in trials if name in trial.params]
    values = [trial.params[name] for trial in own]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    chart = figure("objective")
    chart.add_scatter(
        x=rounded(values) if numeric else [plain(value) for value in values],
        y=rounded([trial.value or 0.0 for trial in own]),
        customdata=[trial.number for trial in own],
        mode="markers",
        showlegend=False,
        marker={
            "size": 8,
            "opacity": 0.75,
            "color": [trial.number for trial in own],
            "colorscale": [[0, "#bcdff1"], [1, "#084c6b"]],
        },
        hovertemplate="trial %{customdata}: %{x}, %{y:.3f}<extra></extra>",
    )
    if numeric and any(name in trial.logarithmic for trial in own):
        ticks = _log_ticks(min(values), max(values))
        chart.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    elif not numeric:
        chart.update_xaxes(type="category")
    return to_html(name, chart, f"slice-{index}", 260)


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten that lie in the range; powers alone over more than three decades."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1.0, 2.0, 5.0) if last - first <= 3 else (1.0,)
    ticks = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if low / 1.05 <= tick <= high * 1.05]
