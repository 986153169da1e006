"""Out-of-sample equity per fold and drawdown of the winner, against buy and hold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from hpo.report.charts import MARKET, POLICY, Chart, dates, figure, rounded
from hpo.thinning import thinned
from trainer.evaluation_file import EvaluationRows
from trainer.statistics.compounding import equity
from trainer.statistics.drawdown import drawdowns

MOST_POINTS = 1600  # of one line over all folds
MOST_SEEDS = 8

Values = npt.NDArray[np.float64]


def equity_chart(rows: EvaluationRows) -> Chart:
    """Growth since the start of each fold; every fold begins at 0 %."""
    chart = figure("growth since the fold's start (%)")
    seeds = _seeds(rows)
    market = rows.select(seeds[0])
    _add(chart, "buy and hold", MARKET, *_fold_growth(market, market.benchmark))
    for index, seed in enumerate(seeds):
        own = rows.select(seed)
        _add(chart, _name(seed, seeds), POLICY[index], *_fold_growth(own, own.ret))
    for fold in np.unique(market.fold):
        start = dates(market.time[market.fold == fold][:1])[0]
        chart.add_vline(x=start, line={"color": MARKET, "width": 1, "dash": "dot"})
    return Chart("equity", "Equity out of sample, each fold from its start", chart, 400, _seeds_note(rows))


def drawdown_chart(rows: EvaluationRows) -> Chart:
    """Distance from the running peak over all folds joined; the start capital counts as a peak."""
    chart = figure("below the peak (%)")
    seeds = _seeds(rows)
    market = rows.select(seeds[0])
    _add(chart, "buy and hold", MARKET, *_depth(market, market.benchmark))
    for index, seed in enumerate(seeds):
        own = rows.select(seed)
        _add(chart, _name(seed, seeds), POLICY[index], *_depth(own, own.ret))
    return Chart("drawdown", "Drawdown, folds joined", chart, 280)


def _seeds_note(rows: EvaluationRows) -> str:
    """Says how many seeds are not drawn; empty if none."""
    count = np.unique(rows.seed).size
    return f"The first {MOST_SEEDS} of {count} seeds are drawn." if count > MOST_SEEDS else ""


def _seeds(rows: EvaluationRows) -> list[int]:
    return [int(seed) for seed in np.unique(rows.seed)[:MOST_SEEDS]]


def _name(seed: int, seeds: list[int]) -> str:
    return "best trial" if len(seeds) == 1 else f"seed {seed}"


def _add(
    chart: go.Figure, name: str, colour: str, times: list[str | None], values: list[float | None]
) -> None:
    chart.add_scatter(
        x=times, y=values, name=name, mode="lines", line={"color": colour, "width": 1.6}, connectgaps=False
    )


def _fold_growth(rows: EvaluationRows, returns: Values) -> tuple[list[str | None], list[float | None]]:
    times: list[str | None] = []
    values: list[float | None] = []
    folds = np.unique(rows.fold)
    for fold in folds:
        inside = rows.fold == fold
        growth = (equity(returns[inside])[1:] - 1.0) * 100.0
        kept = thinned(growth, MOST_POINTS // len(folds))
        times += [*dates(rows.time[inside][kept]), None]
        values += [*rounded(growth[kept]), None]  # None lifts the pen between folds
    return times, values


def _depth(rows: EvaluationRows, returns: Values) -> tuple[list[str | None], list[float | None]]:
    depth = drawdowns(returns)[1:] * 100.0
    kept = thinned(depth, MOST_POINTS)
    return [*dates(rows.time[kept])], [*rounded(depth[kept])]
