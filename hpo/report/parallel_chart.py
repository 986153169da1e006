"""Parallel coordinates: every COMPLETE trial as a line through its parameters, coloured by its objective."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from hpo.colours import GRID
from hpo.report.charts import Chart, figure
from hpo.report.records import TrialRecord
from hpo.report.wording import number, plain

MOST_LINES = 500
COLOURS = (
    "#d8e2e9",
    "#b3cfdf",
    "#7fb3d0",
    "#3f8fba",
    "#0b6e99",
    "#b4540a",
)  # worst to best; the best stand out
COLUMN = 118  # pixels an axis needs for its name


@dataclass(frozen=True)
class _Axis:
    """One vertical axis: where every trial crosses it, in [0, 1], and what stands at its ends."""

    name: str
    places: tuple[float | None, ...]
    labels: tuple[tuple[float, str], ...]


def parallel_chart(trials: Sequence[TrialRecord], names: Sequence[str]) -> Chart:
    """Draws ``trials``, all with a value, through the parameters ``names`` and their objective.

    Args:
        trials: COMPLETE and not degenerate; of more than 500 the best are drawn.
        names: Parameters that took more than one value.
    """
    drawn = sorted(trials, key=lambda trial: trial.value or 0.0)[-MOST_LINES:]
    axes = [*(_axis(name, drawn) for name in names), _objective(drawn)]
    chart = figure("")
    groups = np.array_split(np.arange(len(drawn)), min(len(COLOURS), len(drawn)))
    for colour, group in zip(COLOURS[-len(groups) :], groups, strict=True):
        _add_lines(chart, drawn, axes, group.tolist(), colour)
    for index, axis in enumerate(axes):
        chart.add_vline(x=index, line={"color": GRID, "width": 1.5}, layer="below")
        for place, label in axis.labels:
            chart.add_annotation(
                x=index,
                y=place,
                text=label,
                showarrow=False,
                font={"size": 11},
                bgcolor="rgba(255,255,255,.8)",
            )
    ticks = [_wrapped(axis.name) for axis in axes]
    chart.update_xaxes(
        tickvals=list(range(len(axes))),
        ticktext=ticks,
        tickangle=0,
        range=[-0.5, len(axes) - 0.5],
        side="top",
        showgrid=False,
        zeroline=False,
    )
    chart.update_yaxes(visible=False, range=[-0.12, 1.12])
    left_out = len(trials) - len(drawn)
    note = "" if not left_out else f"Drawn are the best {MOST_LINES} of {len(trials):,} trials."
    title = "Parallel coordinates: the best trials are drawn last, in orange"
    return Chart("parallel", title, chart, 400, note, COLUMN * len(axes))


def _add_lines(
    chart: go.Figure, trials: Sequence[TrialRecord], axes: Sequence[_Axis], group: list[int], colour: str
) -> None:
    across: list[int | None] = []
    up: list[float | None] = []
    numbers: list[int | None] = []
    for at in group:
        across += [*range(len(axes)), None]
        up += [*(axis.places[at] for axis in axes), None]
        numbers += [trials[at].number] * len(axes) + [None]
    chart.add_scatter(
        x=across,
        y=up,
        customdata=numbers,
        mode="lines",
        line={"color": colour, "width": 1.2},
        hovertemplate="trial %{customdata}<extra></extra>",
        showlegend=False,
    )


def _objective(trials: Sequence[TrialRecord]) -> _Axis:
    values = [trial.value or 0.0 for trial in trials]
    return _numeric("objective", values, [number(min(values)), number(max(values))])


def _axis(name: str, trials: Sequence[TrialRecord]) -> _Axis:
    values = [trial.params.get(name) for trial in trials]
    known = [value for value in values if value is not None]
    if any(isinstance(value, str | bool) for value in known):
        kinds = sorted({str(value) for value in known})
        step = 1.0 / max(len(kinds) - 1, 1)
        places = tuple(None if value is None else kinds.index(str(value)) * step for value in values)
        return _Axis(name, places, tuple((index * step, plain(kind)) for index, kind in enumerate(kinds)))
    numbers = [None if value is None else float(value) for value in values]
    ends = [f"{value:.4g}" for value in (min(known), max(known))]
    if any(name in trial.logarithmic for trial in trials):
        numbers = [None if value is None else math.log10(value) for value in numbers]
    return _numeric(name, numbers, ends)


def _numeric(name: str, values: Sequence[float | None], ends: Sequence[str]) -> _Axis:
    """An axis from the lowest to the highest value; a trial without the parameter breaks its line."""
    known = [value for value in values if value is not None]
    low, width = min(known), max(known) - min(known) or 1.0
    places = tuple(None if value is None else round((value - low) / width, 4) for value in values)
    return _Axis(name, places, ((-0.06, ends[0]), (1.06, ends[1])))


def _wrapped(name: str) -> str:
    """Breaks a long name at the underscore nearest to its middle."""
    breaks = [index for index, letter in enumerate(name) if letter == "_"]
    if len(name) <= 14 or not breaks:
        return plain(name)
    at = min(breaks, key=lambda index: abs(index - len(name) / 2))
    return f"{plain(name[: at + 1])}<br>{plain(name[at + 1 :])}"
