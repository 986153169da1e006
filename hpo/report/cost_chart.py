"""Sharpe ratio against cost: which trials nobody beats in both."""

from __future__ import annotations

from collections.abc import Sequence

from hpo.colours import INK
from hpo.report.charts import STATE_COLOURS, Chart, figure, rounded
from hpo.report.records import StudyRecord


def cost_chart(study: StudyRecord) -> Chart | None:
    """Objective of the usable COMPLETE trials over their cost, with the Pareto front.

    Returns:
        The chart; None where fewer than two trials keep their cost.
    """
    on_gpu = any(trial.gpu_seconds for trial in study.complete)
    points = []
    for trial in study.complete:
        cost = trial.gpu_seconds if on_gpu else trial.seconds
        if cost and trial.value is not None and not trial.degenerate:
            points.append((cost, trial.value, trial.number))
    if len(points) < 2:
        return None
    front = pareto_front(points)
    unit = "GPU-seconds" if on_gpu else "seconds of training"
    chart = figure("objective (Sharpe, per year)", unit)
    hover = "trial %{customdata}: %{y:.3f} for %{x:.4g} s<extra></extra>"
    chart.add_scatter(
        x=rounded([cost for cost, _, _ in points]),
        y=rounded([value for _, value, _ in points]),
        customdata=[number for _, _, number in points],
        mode="markers",
        name="COMPLETE trials",
        marker={"size": 8, "opacity": 0.6, "color": STATE_COLOURS["COMPLETE"]},
        hovertemplate=hover,
    )
    chart.add_scatter(
        x=rounded([cost for cost, _, _ in front]),
        y=rounded([value for _, value, _ in front]),
        customdata=[number for _, _, number in front],
        mode="lines+markers",
        name="no cheaper trial is as good",
        line={"color": INK, "width": 1.5, "shape": "hv"},
        marker={"size": 9, "color": INK},
        hovertemplate=hover,
    )
    return Chart("cost", "Sharpe ratio against cost", chart, 340, _note(study, on_gpu))


def pareto_front(points: Sequence[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """The points (cost, value, number) that no other beats in one and equals in the other, by cost.

    Of points that are equal in both the smallest number stands for all.
    """
    front: list[tuple[float, float, int]] = []
    for point in sorted(points, key=lambda each: (each[0], -each[1], each[2])):
        if not front or point[1] > front[-1][1]:
            front.append(point)
    return front


def _note(study: StudyRecord, on_gpu: bool) -> str:
    costs = [(trial.gpu_seconds if on_gpu else trial.seconds) or 0.0 for trial in study.trials]
    stopped = sum(cost for cost, trial in zip(costs, study.trials, strict=True) if trial.state != "COMPLETE")
    unit = "GPU-seconds" if on_gpu else "seconds"
    return (
        f"The search has cost {sum(costs):,.0f} {unit} of training, {stopped:,.0f} of them in trials "
        "that are not COMPLETE."
    )
