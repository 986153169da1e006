"""How far the winner's result hangs on the seed: the fan of its seeds' equity curves."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from hpo.colours import INK, POLICY
from hpo.report.charts import MARKET, Chart, dates, figure, rounded
from hpo.thinning import thinned
from trainer.evaluation_file import EvaluationRows
from trainer.statistics.compounding import equity

MOST_POINTS = 1000
BAND = "rgba(11, 110, 153, 0.15)"

Values = npt.NDArray[np.float64]


def seed_chart(rows: EvaluationRows) -> Chart | None:
    """Growth, folds joined: lowest to highest seed, their mean, buy and hold; None for one seed."""
    seeds = rows.of_each_seed()
    if len(seeds) < 2:
        return None
    base = rows.longest_seed()
    curves = np.stack([_growth(own, base) for own in seeds])  # [seeds, T]
    market = (equity(base.benchmark)[1:] - 1.0) * 100.0
    chart = figure("growth, folds joined (%)")
    high, low, mean = curves.max(axis=0), curves.min(axis=0), curves.mean(axis=0)
    # All lines are drawn at the same bars, or the band would not lie between its edges.
    kept = functools.reduce(
        np.union1d, (thinned(line, MOST_POINTS // 4) for line in (high, low, mean, market))
    )
    times = dates(base.time[kept])
    _add(chart, "highest seed", times, high[kept], POLICY[0], 0.6)
    _add(chart, "lowest seed", times, low[kept], POLICY[0], 0.6)
    chart.data[-1].update(fill="tonexty", fillcolor=BAND)
    _add(chart, f"mean of {len(seeds)} seeds", times, mean[kept], INK, 2.2)
    _add(chart, "buy and hold", times, market[kept], MARKET, 1.6)
    return Chart("seeds", "Seed fan: the same configuration, other random numbers", chart, 340)


def _growth(own: EvaluationRows, base: EvaluationRows) -> Values:
    """Compounded growth [T] in percent at the bars of ``base``; a bar after a bankruptcy changes nothing."""
    place = np.searchsorted(base.bar_keys(), own.bar_keys())
    returns = np.zeros(base.ret.size)
    returns[place] = own.ret
    growth: Values = (equity(returns)[1:] - 1.0) * 100.0
    return growth


def _add(chart: go.Figure, name: str, times: list[str], values: Values, colour: str, width: float) -> None:
    chart.add_scatter(
        x=times, y=rounded(values), name=name, mode="lines", line={"color": colour, "width": width}
    )
