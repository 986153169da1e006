"""The four facts that a reader takes away: score and error, trials, chance of luck, buy and hold."""

from __future__ import annotations

from collections.abc import Sequence

from hpo.report.findings import Findings
from hpo.report.wording import NOT_DEFINED, NOT_RECORDED, number, percent, plural, probability, years


def facts(findings: Findings, best: int) -> str:
    """A strip of name, figure and note each, HTML.

    Args:
        findings: About the winner.
        best: Its number.
    """
    each = (_score(findings, best), _trials(findings), _luck(findings), _market(findings, best))
    head = "<thead><tr><th>Fact</th><th>Figure</th><th>Note</th></tr></thead>"
    return f'<table class="facts">{head}<tbody>{"".join(_row(fact) for fact in each)}</tbody></table>'


def _row(cells: Sequence[str]) -> str:
    name, figure, note = cells
    return f'<tr><th>{name}</th><td class="figure">{figure}</td><td>{note}</td></tr>'


def _score(findings: Findings, best: int) -> tuple[str, str, str]:
    error = number(findings.score.standard_error)
    note = f"trial {best}"
    interval = None if findings.winner is None else findings.winner.interval
    if interval is not None:
        low, high = number(interval.low), number(interval.high)
        note = f"{note}; {percent(interval.level, 0)} interval {low} to {high}"
    return (
        "Sharpe ratio, per year",
        f"{number(findings.ratio)} <small>\N{PLUS-MINUS SIGN} {error}</small>",
        note,
    )


def _trials(findings: Findings) -> tuple[str, str, str]:
    note = f"scored on {years(findings.score.years)} out of sample"
    return "Trials started", f"{findings.started:,}", note


def _luck(findings: Findings) -> tuple[str, str, str]:
    """What is missing to certainty that the true ratio is above the best of luck."""
    name = "Chance that it is luck"
    if findings.deflated is None:
        return name, NOT_DEFINED, "see below"
    note = f"luck alone shows {number(findings.luck)} in {plural(findings.started, 'trial')}"
    if findings.started == 1:
        note = "that the true ratio is not above 0"
    return name, probability(1.0 - findings.deflated), note


def _market(findings: Findings, best: int) -> tuple[str, str, str]:
    name = "Buy and hold"
    if findings.winner is None:
        return name, NOT_RECORDED, ""
    held, earned = findings.winner.benchmark, findings.winner.policy
    note = f"same bars: {percent(held.total_return)}; trial {best}: {percent(earned.total_return)}"
    return name, number(held.sharpe), note
