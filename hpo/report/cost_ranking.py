"""Whether the ranking of the best trials survives other costs, from their stored positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from hpo.report.cost_sweep import break_even, cost_sweep, terms_of
from hpo.report.records import StudyRecord, TrialRecord
from hpo.report.tables import table
from hpo.report.wording import number, plural

MOST_TRIALS = 5


@dataclass(frozen=True)
class TrialAtCosts:
    """One trial.

    Attributes:
        number: The trial.
        ratios: Annualised Sharpe ratio at every cost, mean over seeds.
        break_even: Cost at which it earns nothing, basis points; None where it never earns.
    """

    number: int
    ratios: tuple[float, ...]
    break_even: float | None


@dataclass(frozen=True)
class CostRanking:
    """The best trials at the same costs.

    Attributes:
        costs: Of a market order, basis points per side, rising.
        trials: By their value in the search, the winner first; at least two.
    """

    costs: tuple[float, ...]
    trials: tuple[TrialAtCosts, ...]

    @property
    def leaders(self) -> tuple[int, ...]:
        """The trial with the highest ratio at every cost; of equals the one that the search ranked first."""
        at_each = zip(*(trial.ratios for trial in self.trials), strict=True)
        return tuple(self.trials[ratios.index(max(ratios))].number for ratios in at_each)

    @property
    def sentence(self) -> str:
        """Says whether the winner leads at every cost, or which trial does where."""
        winner, among = self.trials[0].number, f"of the best {plural(len(self.trials), 'trial')}"
        parts = []
        for leader, pairs in groupby(zip(self.leaders, self.costs, strict=True), key=lambda pair: pair[0]):
            costs = [cost for _, cost in pairs]
            span = f"{costs[0]:g}" if len(costs) == 1 else f"{costs[0]:g} to {costs[-1]:g}"
            parts.append(f"trial {leader} at {span} bp")
        if set(self.leaders) == {winner}:
            return f"The choice survives: {among}, trial {winner} has the highest ratio at all these costs."
        return f"The choice depends on the costs: {among}, {' and '.join(parts)} has the highest ratio."


def cost_ranking(
    study: StudyRecord, best: TrialRecord, costs: Sequence[float], periods_per_year: float
) -> CostRanking | None:
    """Scores the stored positions of the winner and of the next best COMPLETE trials.

    Args:
        study: All trials; those without bars or costs on record, and degenerate ones, are passed over.
        best: The winner.
        costs: Basis points, at least 0.
        periods_per_year: Bars per year.

    Returns:
        At most 5 trials; None if fewer than two can be scored, or the winner cannot.
    """
    asked = tuple(sorted(set(map(float, costs))))
    others = (trial for trial in study.complete if not trial.degenerate and trial.number != best.number)
    ranked = sorted(others, key=lambda trial: (-(trial.value or 0.0), trial.number))
    found: list[TrialAtCosts] = []
    for trial in (best, *ranked):
        scored = _scored(study, trial, asked, periods_per_year)
        if scored is not None:
            found.append(scored)
        elif trial is best:
            return None
        if len(found) == MOST_TRIALS:
            break
    return CostRanking(asked, tuple(found)) if len(found) > 1 else None


def _scored(
    study: StudyRecord, trial: TrialRecord, costs: tuple[float, ...], periods_per_year: float
) -> TrialAtCosts | None:
    rows = study.evaluation(trial.number)
    terms = None if rows is None or rows.ret.size == 0 else terms_of(trial.config, rows)
    if rows is None or terms is None:
        return None
    ratios = {point.cost: point.ratio for point in cost_sweep(rows, costs, terms, periods_per_year)}
    return TrialAtCosts(trial.number, tuple(ratios[cost] for cost in costs), break_even(rows, terms))


def ranking_table(ranking: CostRanking) -> str:
    """A line per cost, a column per trial, the leader of every line in bold; HTML."""
    header = ("cost, bp", *(f"trial {trial.number}" for trial in ranking.trials))
    lines = [
        [f"{cost:g}", *(_marked(number(t.ratios[at]), t.number == leader) for t in ranking.trials)]
        for at, (cost, leader) in enumerate(zip(ranking.costs, ranking.leaders, strict=True))
    ]
    lines.append(["breaks even", *(_limit(trial) for trial in ranking.trials)])
    return (
        "<h3>The best trials at the same costs, Sharpe ratio per year</h3>"
        f"{table(header, lines, 'costs')}<p>{ranking.sentence}</p>"
    )


def ranking_lines(ranking: CostRanking) -> list[str]:
    """The same for a terminal."""
    width = max(9, *(len(f"trial {trial.number}") for trial in ranking.trials))

    def line(first: str, cells: Sequence[str]) -> str:
        return f"{first:>11}" + "".join(f"  {cell:>{width}}" for cell in cells)

    return [
        "the best trials at the same costs, Sharpe per year",
        line("cost, bp", [f"trial {trial.number}" for trial in ranking.trials]),
        *(
            line(f"{cost:g}", [f"{trial.ratios[at]:.3f}" for trial in ranking.trials])
            for at, cost in enumerate(ranking.costs)
        ),
        line("breaks even", [_limit(trial) for trial in ranking.trials]),
        ranking.sentence,
    ]


def _marked(cell: str, leads: bool) -> str:
    return f"<b>{cell}</b>" if leads else cell


def _limit(trial: TrialAtCosts) -> str:
    return "never" if trial.break_even is None else f"{trial.break_even:.3g} bp"
