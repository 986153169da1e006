"""What all charts share: look, size, and drawing no more points than a screen shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from hpo.colours import GRID, INK
from hpo.report.wording import plain

MARKET = "#9aa5b1"
STATE_COLOURS = {"COMPLETE": "#0b6e99", "PRUNED": "#c98a1b", "FAIL": "#b42318", "RUNNING": "#5b7f2b"}


@dataclass(frozen=True)
class Chart:
    """A chart that stands on the page and in Optuna Dashboard.

    Attributes:
        identity: Element id, unique on the page.
        title: Plain text.
        figure: What is drawn.
        height: Pixels.
        note: HTML below it; empty if there is nothing to say.
        least_width: Pixels below which it is scrolled instead of squeezed; 0: it fits everywhere.
    """

    identity: str
    title: str
    figure: go.Figure
    height: int = 380
    note: str = ""
    least_width: int = 0

    @property
    def html(self) -> str:
        """The chart as a fragment of the page."""
        drawn = to_html(self.title, self.figure, self.identity, self.height, self.least_width)
        return drawn + (f"<p>{self.note}</p>" if self.note else "")


def figure(vertical: str, horizontal: str = "") -> go.Figure:
    """An empty chart in the page's look; axis titles carry the units."""
    chart = go.Figure()
    axis = {"gridcolor": GRID, "zerolinecolor": MARKET, "linecolor": GRID, "automargin": True}
    chart.update_layout(
        template=None,
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        paper_bgcolor="white",
        plot_bgcolor="white",
        margin={"l": 8, "r": 12, "t": 12, "b": 8},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        hovermode="closest",
        xaxis={**axis, "title": {"text": horizontal}},
        yaxis={**axis, "title": {"text": vertical}},
    )
    return chart


def to_html(title: str, chart: go.Figure, identity: str, height: int = 380, least_width: int = 0) -> str:
    """A titled chart as a fragment that fills its container's width; the library must be on the page.

    Args:
        title: Plain text. It stands above the chart, where a narrow window wraps it instead of cutting it.
        chart: What to draw.
        identity: Element id, unique on the page.
        height: Pixels.
        least_width: Pixels below which the chart is scrolled under its title; 0: it fits everywhere.
    """
    fragment: str = chart.to_html(
        full_html=False,
        include_plotlyjs=False,
        include_mathjax=False,
        div_id=identity,
        default_width="100%",
        default_height=f"{height}px",
        config={"responsive": True, "displaylogo": False, "displayModeBar": False},
    )
    if least_width:
        fragment = f'<div class="scroll"><div style="min-width: {least_width}px">{fragment}</div></div>'
    return f'<div class="chart"><h3>{plain(title)}</h3>{fragment}</div>'


def dates(nanoseconds: npt.NDArray[np.int64]) -> list[str]:
    """ISO times, UTC, to the second; to the day where all of them are midnights, which keeps pages small."""
    moments = nanoseconds.astype("datetime64[ns]").astype("datetime64[s]")
    days = moments.astype("datetime64[D]")
    return [str(moment) for moment in (days if (days == moments).all() else moments)]


def rounded(values: npt.NDArray[np.float64] | Sequence[float]) -> list[float]:
    """Six significant digits: a chart needs no more and the file stays small."""
    return [float(f"{value:.6g}") for value in values]
