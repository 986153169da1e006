"""The ratios of all trials against the best that as many worthless trials would have shown."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from scipy.special import log_ndtr

from hpo.colours import INK
from hpo.report.charts import MARKET, STATE_COLOURS, Chart, figure, rounded
from hpo.report.findings import Findings, scored_ratios
from hpo.report.records import StudyRecord
from hpo.report.wording import number, plural
from trainer.statistics.deflated_sharpe import expected_maximum

NOISE = "#b4540a"
POINTS = 160

Values = npt.NDArray[np.float64]


def luck_chart(study: StudyRecord, findings: Findings) -> Chart | None:
    """Histogram of the trials' ratios and the density of the best of N worthless ones; None for one trial."""
    ratios = np.array(scored_ratios(study))
    if ratios.size < 2 or not findings.luck:
        return None
    spread = findings.luck / expected_maximum(findings.started)
    chart = figure("trials", "Sharpe ratio per year")  # a longer title is cut at 420 pixels
    chart.add_histogram(
        x=rounded(ratios),
        name="trials that keep a score",
        marker={"color": STATE_COLOURS["COMPLETE"], "line": {"color": "white", "width": 1}},
        opacity=0.75,
        nbinsx=int(min(40, max(8, 2 * np.sqrt(ratios.size)))),
    )
    ends = np.array([ratios.min(), ratios.max(), 0.0, findings.luck + 4.0 * spread])
    grid = np.linspace(ends.min(), ends.max(), POINTS)
    chart.add_scatter(
        x=rounded(grid),
        y=rounded(maximum_density(grid / spread, findings.started) / spread),
        yaxis="y2",
        mode="lines",
        name=f"best of {plural(findings.started, 'worthless trial')}",
        line={"color": NOISE, "width": 2},
        fill="tozeroy",
        fillcolor="rgba(180, 84, 10, 0.12)",
        hoverinfo="skip",
    )
    chart.update_layout(
        yaxis2={"overlaying": "y", "visible": False, "rangemode": "tozero"}, yaxis={"rangemode": "tozero"}
    )
    _mark(chart, findings.luck, "dot", NOISE, "expected best of luck")
    if findings.winner is not None and findings.winner.benchmark.sharpe is not None:
        _mark(chart, findings.winner.benchmark.sharpe, "dash", MARKET, "buy and hold")
    _mark(chart, findings.ratio, "solid", INK, "winner")
    return Chart("luck", "Trials against luck", chart, 340, _note(ratios, findings))


def maximum_density(values: Values, trials: int) -> Values:
    """Density of the largest of ``trials`` independent standard normal draws, N phi(x) Phi(x)^(N-1)."""
    logarithm = np.log(trials) - 0.5 * np.square(values) - 0.5 * np.log(2.0 * np.pi)
    density: Values = np.exp(logarithm + (trials - 1) * log_ndtr(values))
    return density


def _mark(chart: go.Figure, at: float, dash: str, colour: str, name: str) -> None:
    # A trace, not a shape: it stands in the legend, which wraps where labels beside lines would overlap.
    chart.add_scatter(
        x=[float(f"{at:.6g}")] * 2,
        y=[0, 1],
        yaxis="y3",
        mode="lines",
        name=f"{name}, {number(at)}",
        line={"color": colour, "width": 2, "dash": dash},
        hoverinfo="name",
    )
    chart.update_layout(yaxis3={"overlaying": "y", "visible": False, "range": [0, 1], "fixedrange": True})


def _note(ratios: Values, findings: Findings) -> str:
    missing = findings.started - ratios.size
    silent = "" if missing <= 0 else f" {plural(missing, 'started trial')} left no score, but count in N."
    return (
        "Ratios are means over seeds; a stopped trial shows its last epoch's. The curve "
        f"assumes independent trials whose ratios spread as these do.{silent}"
    )
