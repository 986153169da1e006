"""The winner's stored positions under other costs, without training again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hpo.colours import INK, POLICY
from hpo.report.charts import MARKET, Chart, figure, rounded
from hpo.report.next_steps import runs_flag
from hpo.report.records import StudyRecord, TrialRecord
from hpo.report.tables import table
from hpo.report.wording import number, percent
from hpo.study.run_directory import RunDirectory
from trainer.evaluation_file import EVALUATION_FILE, EvaluationRows
from trainer.hyperparameters import BASIS_POINT
from trainer.statistics.compounding import total_return
from trainer.statistics.sharpe import Returns, annualised_sharpe
from trainer.statistics.sharpe_inference import annualised_standard_error

USUAL_COSTS = (0.0, 1.0, 2.0, 5.0, 10.0)  # basis points


@dataclass(frozen=True)
class CostPoint:
    """The winner at one cost.

    Attributes:
        cost: Of a market order, basis points of the traded value per side.
        ratio: Annualised Sharpe ratio, mean over seeds; 0 where a seed's returns have no spread.
        error: Lo's standard error of it, one seed's bars.
        total: Compounded return over all test windows, mean over seeds.
        drag: What the trades cost per year, a fraction of equity, mean over seeds.
        trained: This is the cost that the trial was trained and scored with.
    """

    cost: float
    ratio: float
    error: float
    total: float
    drag: float
    trained: bool = False


@dataclass(frozen=True)
class Terms:
    """What the stored costs of a trial were.

    Attributes:
        cost: Fee, half spread and slippage, basis points: what a market order paid.
        relative: Percent returns; False under data.returns = difference.
    """

    cost: float
    relative: bool = True


def terms_of(config: Mapping[str, Mapping[str, Any]], rows: EvaluationRows) -> Terms | None:
    """Reads the terms of a trial.

    Returns:
        None without a configuration or costs on record, and for a trial without costs under
        data.returns = difference: what a contract was worth is not on record.
    """
    environment, data = config.get("environment", {}), config.get("data", {})
    keys = ("fee_bp", "half_spread_bp", "slippage_bp")
    if not all(key in environment for key in keys) or np.isnan(rows.cost).any():
        return None
    terms = Terms(sum(float(environment[key]) for key in keys), data.get("returns", "percent") == "percent")
    return terms if terms.relative or terms.cost > 0 else None


def no_sweep(study: StudyRecord, best: TrialRecord | None, rows: EvaluationRows | None) -> str | None:
    """Why the winner's positions cannot be scored at other costs, and what to do; None if they can be."""
    if best is None:
        return "no trial is COMPLETE; let one run to its end"
    if best.score is None or not best.config:
        return f"trial {best.number} keeps no score or no configuration; search again to have them kept"
    folder = RunDirectory(study.run_directory).trial(best.number)
    command = f"foxtune replay {shlex.quote(study.name)} --number {best.number}"
    again = f"write it again with {command}{runs_flag(study.run_directory)} --out {shlex.quote(str(folder))}"
    if rows is None:
        return f"trial {best.number} has no readable {EVALUATION_FILE} in {folder}; {again}"
    if np.isnan(rows.cost).any():
        return f"{EVALUATION_FILE} of trial {best.number} is older than its columns of costs; {again}"
    if terms_of(best.config, rows) is None:
        return (
            f"trial {best.number} was trained on contracts (data.returns = difference) without costs, so "
            "what a contract was worth is not on record; train with a fee to sweep it"
        )
    return None


def returns_at(rows: EvaluationRows, cost: float, terms: Terms) -> Returns:
    """Net bar returns [R] of the stored positions at another cost.

    Costs grow in the ratio of the two, so that a limit order keeps its share of a market order's cost; what
    impact took stays. Under data.returns = difference it is money that grows: the equity of every window is
    followed anew. A trial that paid nothing has no shares: there every change of position is taken for a
    market order, and the last position of a fold is closed. A window that loses everything ends there, later
    bars count 0; one that was bankrupt in the trial stays so.

    Args:
        rows: Of one seed, or of several.
        cost: Basis points per side of a market order.
        terms: Those of the trial itself.
    """
    unit = _linear_cost(rows, terms)
    gain = rows.ret + (unit * terms.cost if terms.cost > 0 else 0.0) - unit * cost
    net = np.empty_like(gain)
    for window in _windows(rows):
        net[window] = _net_of_a_window(rows.ret[window], gain[window], relative=terms.relative)
    return net


def _linear_cost(rows: EvaluationRows, terms: Terms) -> Returns:
    """What one basis point of a market order's cost takes of the equity before each bar, [R]."""
    if terms.cost > 0:
        unit: Returns = (rows.cost - rows.impact) / terms.cost
        return unit
    return BASIS_POINT * _traded(rows)


def _net_of_a_window(trained: Returns, gain: Returns, *, relative: bool) -> Returns:
    """Returns of a window in time order, from the trial's own and from what each bar makes of its equity."""
    ruined = trained <= -1.0
    if not relative:
        money = gain * _equity_before(trained)  # of the trial itself
        equity = np.concatenate([[1.0], 1.0 + np.cumsum(money)[:-1]])
        gain = np.divide(money, equity, out=np.full_like(money, -1.0), where=equity > 0)
    net = np.where(ruined, -1.0, np.maximum(gain, -1.0))
    alive = np.concatenate([[True], np.cumprod(1.0 + net)[:-1] > 0])
    return np.where(alive, net, 0.0)


def _equity_before(returns: Returns) -> Returns:
    """Equity at the start of each bar of a window, 1 at its own start."""
    return np.concatenate([[1.0], np.cumprod(1.0 + returns)[:-1]])


def cost_sweep(
    rows: EvaluationRows, costs: Sequence[float], terms: Terms, periods_per_year: float
) -> tuple[CostPoint, ...]:
    """Scores the stored positions at every cost, and at the trial's own.

    Args:
        rows: The winner's out-of-sample bars.
        costs: Basis points, at least 0.
        terms: The trial's own.
        periods_per_year: Bars per year.
    """
    seeds = rows.of_each_seed()
    return tuple(
        _point(seeds, cost, terms, periods_per_year) for cost in sorted({*map(float, costs), terms.cost})
    )


def break_even(rows: EvaluationRows, terms: Terms) -> float | None:
    """Cost of a market order, basis points, at which the bars of all seeds earn 0 in the mean.

    Under data.returns = difference: at which they earn no money.

    Returns:
        None where the positions lose without costs, or were never changed.
    """
    unit = _linear_cost(rows, terms)
    gross = rows.ret + unit * terms.cost
    if not terms.relative:
        equity = np.empty_like(gross)
        for window in _windows(rows):
            equity[window] = _equity_before(rows.ret[window])
        unit, gross = unit * equity, gross * equity
    earned, paid = float(gross.sum()), float(unit.sum())
    return earned / paid if earned > 0 and paid > 0 else None


def sweep_chart(
    best: TrialRecord, rows: EvaluationRows, costs: Sequence[float], periods_per_year: float
) -> Chart | None:
    """Sharpe ratio over cost with its error, and the table below; None where the terms are not on record."""
    terms = terms_of(best.config, rows)
    if terms is None:
        return None
    points = cost_sweep(rows, costs, terms, periods_per_year)
    chart = figure("Sharpe ratio, per year", "cost of a market order, bp")
    chart.add_scatter(
        x=rounded([point.cost for point in points]),
        y=rounded([point.ratio for point in points]),
        error_y={"type": "data", "array": rounded([point.error for point in points]), "color": MARKET},
        mode="lines+markers",
        name="winner, its positions unchanged",
        line={"color": POLICY[0], "width": 1.5},
        hovertemplate="%{x:g} bp: %{y:.3f}<extra></extra>",
    )
    chart.add_vline(x=terms.cost, line={"color": INK, "width": 1, "dash": "dot"})
    limit = break_even(rows, terms)
    said = "It earns nothing even without costs." if limit is None else f"It breaks even at {limit:.2g} bp."
    note = f"{_table(points)}<p>{said} The dotted line is the cost of training, {terms.cost:g} bp.</p>"
    return Chart("sweep", "The same positions at other costs", chart, 320, note)


def sweep_lines(points: Sequence[CostPoint], limit: float | None) -> list[str]:
    """The table for a terminal."""
    lines = [f"{'cost, bp':>9}  {'Sharpe, per year':>18}  {'total return':>12}  {'cost, per year':>14}"]
    for point in points:
        mark = "  the trial's own" if point.trained else ""
        ratio = f"{point.ratio:.3f} +- {point.error:.3f}"
        lines.append(
            f"{point.cost:>9g}  {ratio:>18}  {100 * point.total:>11.1f}%  {100 * point.drag:>13.2f}%{mark}"
        )
    lines.append("no break-even cost" if limit is None else f"break-even cost {limit:.3g} bp")
    return lines


def _table(points: Sequence[CostPoint]) -> str:
    header = ("cost, bp", "Sharpe, per year", "total return", "costs, per year")
    cells = [
        [
            f"{point.cost:g}",
            f"{number(point.ratio)} &plusmn; {number(point.error)}",
            percent(point.total),
            percent(point.drag, 2),
        ]
        for point in points
    ]
    marked = {index for index, point in enumerate(points) if point.trained}
    return table(header, cells, "costs", marked)


def _point(seeds: Sequence[EvaluationRows], cost: float, terms: Terms, periods_per_year: float) -> CostPoint:
    returns = [returns_at(seed, cost, terms) for seed in seeds]
    ratio = float(np.mean([annualised_sharpe(each, periods_per_year) or 0.0 for each in returns]))
    drags = [
        float((_linear_cost(seed, terms) * cost + seed.impact).mean()) * periods_per_year for seed in seeds
    ]
    return CostPoint(
        cost=cost,
        ratio=ratio,
        error=annualised_standard_error(ratio, max(each.size for each in returns), periods_per_year),
        total=float(np.mean([total_return(each) for each in returns])),
        drag=float(np.mean(drags)),
        trained=cost == terms.cost,
    )


def _windows(rows: EvaluationRows) -> list[npt.NDArray[np.int64]]:
    """Indices of every seed's test windows, each in time order."""
    order = np.lexsort((rows.time, rows.fold, rows.seed))
    ends = (np.diff(rows.seed[order]) != 0) | (np.diff(rows.fold[order]) != 0)
    return np.split(order, np.flatnonzero(ends) + 1)


def _traded(rows: EvaluationRows) -> Returns:
    """Changes of position [R]; every seed and fold starts flat and closes what it holds in its last bar."""
    traded = np.empty_like(rows.position)
    for window in _windows(rows):
        position = rows.position[window]
        traded[window] = np.abs(np.diff(position, prepend=0.0))
        traded[window[-1]] += abs(position[-1])
    return traded
