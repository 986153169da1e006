"""Out-of-sample equity per fold and drawdown of the winner, against buy and hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from hpo.colours import POLICY
from hpo.report.charts import MARKET, Chart, dates, figure, rounded
from hpo.thinning import thinned
from trainer.evaluation_file import EvaluationRows
from trainer.statistics.compounding import equity
from trainer.statistics.drawdown import drawdowns

MOST_POINTS = 1600  # of one line over all folds
MOST_SEEDS = len(POLICY)

Values = npt.NDArray[np.float64]
Dates = list[str | None]
Percents = list[float | None]
Curve = Callable[[EvaluationRows, Values], tuple[Dates, Percents]]


def equity_chart(rows: EvaluationRows) -> Chart:
    """Growth since the start of each fold; every fold begins at 0 %."""
    chart = figure("growth since the fold's start (%)")
    market = _draw(chart, rows, _fold_growth)
    for fold in np.unique(market.fold):
        start = dates(market.time[market.fold == fold][:1])[0]
        chart.add_vline(x=start, line={"color": MARKET, "width": 1, "dash": "dot"})
    return Chart("equity", "Equity out of sample, each fold from its start", chart, 400, _seeds_note(rows))


def drawdown_chart(rows: EvaluationRows) -> Chart:
    """Distance from the running peak over all folds joined; the start capital counts as a peak."""
    chart = figure("below the peak (%)")
    _draw(chart, rows, _depth)
    return Chart("drawdown", "Drawdown, folds joined", chart, 280)


def _draw(chart: go.Figure, rows: EvaluationRows, curve: Curve) -> EvaluationRows:
    """Adds the curve of buy and hold and of the first seeds; returns the bars of the former."""
    seeds = np.unique(rows.seed)[:MOST_SEEDS].tolist()
    market = rows.longest_seed()
    _add(chart, "buy and hold", MARKET, *curve(market, market.benchmark))
    for colour, seed in zip(POLICY, seeds, strict=False):
        own = rows.select(seed)
        _add(chart, "best trial" if len(seeds) == 1 else f"seed {seed}", colour, *curve(own, own.ret))
    return market


def _seeds_note(rows: EvaluationRows) -> str:
    """Says how many seeds are not drawn; empty if none."""
    count = np.unique(rows.seed).size
    return f"The first {MOST_SEEDS} of {count} seeds are drawn." if count > MOST_SEEDS else ""


def _add(chart: go.Figure, name: str, colour: str, times: Dates, values: Percents) -> None:
    chart.add_scatter(
        x=times, y=values, name=name, mode="lines", line={"color": colour, "width": 1.6}, connectgaps=False
    )


def _fold_growth(rows: EvaluationRows, returns: Values) -> tuple[Dates, Percents]:
    times: Dates = []
    values: Percents = []
    folds = np.unique(rows.fold)
    for fold in folds:
        inside = rows.fold == fold
        growth = (equity(returns[inside])[1:] - 1.0) * 100.0
        kept = thinned(growth, MOST_POINTS // len(folds))
        times += [*dates(rows.time[inside][kept]), None]
        values += [*rounded(growth[kept]), None]  # None lifts the pen between folds
    return times, values


def _depth(rows: EvaluationRows, returns: Values) -> tuple[Dates, Percents]:
    depth = drawdowns(returns)[1:] * 100.0
    kept = thinned(depth, MOST_POINTS)
    return [*dates(rows.time[kept])], [*rounded(depth[kept])]
