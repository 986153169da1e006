"""The table of statistics behind the verdict, each with what it means."""

from __future__ import annotations

from hpo.report.findings import Findings
from hpo.report.wording import NOT_DEFINED, number, plural, probability, years
from trainer.statistics.bootstrap import Interval
from trainer.statistics.superior_predictive_ability import SuperiorAbility

SMALLEST_P = 0.001  # one over the number of bootstrap samples


def trust_table(findings: Findings) -> str:
    """Statistics of the winner, HTML; what cannot be computed is said to be not defined."""
    rows = [*_of_the_ratio(findings), *_of_the_selection(findings), *_of_the_trials(findings)]
    body = "".join(f"<tr><th>{name}</th><td>{value}</td><td>{note}</td></tr>" for name, value, note in rows)
    return (
        '<div class="scroll"><table class="notes"><thead><tr><th>Statistic</th><th>Value</th>'
        f"<th>Meaning</th></tr></thead><tbody>{body}</tbody></table></div>"
    )


def _of_the_ratio(findings: Findings) -> list[tuple[str, str, str]]:
    winner = findings.winner
    shape, interval, serial = (
        (None, None, None) if winner is None else (winner.shape, winner.interval, winner.serial_ratio)
    )
    moments = NOT_DEFINED if shape is None else f"{number(shape.skewness)} and {number(shape.kurtosis)}"
    return [
        (
            "Standard error",
            f"{number(findings.score.standard_error)} per year",
            "Lo (2002) for independent returns, of one seed: seeds share the bars, so their mean is no surer",
        ),
        (
            "95 % interval",
            _interval(interval),
            "of the mean over seeds: stationary bootstrap, which keeps serial dependence; a sample takes the "
            "same bars of every seed",
        ),
        (
            "Sharpe with serial correlation",
            NOT_DEFINED if serial is None else f"{number(serial)} per year",
            "annualised by Lo's eta(q) instead of the square root of time",
        ),
        ("Skewness and kurtosis", moments, "of bar returns; a normal distribution has 0 and 3"),
        (
            "Probability of a true Sharpe above 0",
            probability(findings.probability),
            "probabilistic Sharpe ratio, as if this had been the only trial",
        ),
        (
            "Track record needed",
            years(findings.track_record_years, missing="no length suffices"),
            f"for 95 % confidence in a ratio above 0; there are {years(findings.score.years)}",
        ),
    ]


def _of_the_selection(findings: Findings) -> list[tuple[str, str, str]]:
    effective = "" if findings.effective is None else f" (worth {number(findings.effective, 1)} independent)"
    luck = NOT_DEFINED if findings.luck is None else f"{number(findings.luck)} per year"
    return [
        ("Best of luck", luck, f"expected best ratio of {plural(findings.started, 'worthless trial')}"),
        (
            "Deflated Sharpe ratio",
            probability(findings.deflated),
            "probability that the true ratio is above the best of luck, all started trials counted",
        ),
        (
            "Same, correlated trials",
            probability(findings.deflated_effective),
            f"at the effective number of trials{effective}: alike trials are fewer draws",
        ),
        (
            "Backtest needed",
            years(findings.backtest_years),
            "years below which luck alone is expected to reach a ratio of 1 with this many trials",
        ),
    ]


def _of_the_trials(findings: Findings) -> list[tuple[str, str, str]]:
    overfit = findings.overfitting
    note = "needs two different COMPLETE trials and 32 bars"
    if overfit is not None:
        note = (
            f"share of {len(overfit.logits):,} splits of the bars in which the better half's winner among "
            f"{plural(overfit.trials, 'COMPLETE trial')} falls below the median on the other half"
            f"{_left_out(findings)}"
        )
    return [
        (
            "Probability of overfitting (PBO)",
            NOT_DEFINED if overfit is None else probability(overfit.probability),
            note,
        ),
        ("Better than cash", _ability(findings.over_cash), _ability_note(findings.over_cash)),
        ("Better than buy and hold", _ability(findings.over_holding), _ability_note(findings.over_holding)),
    ]


def _left_out(findings: Findings) -> str:
    """Says which trials the matrix lacks: ragged or absent bars cannot be compared bar by bar."""
    missing = findings.started - findings.compared
    if missing <= 0:
        return ""
    return (
        f"; {plural(missing, 'other started trial')}, stopped early, failed or without bars to compare, "
        f"{'is' if missing == 1 else 'are'} left out here but counted in N = {findings.started:,} above"
    )


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return NOT_DEFINED
    return f"{number(interval.low)} to {number(interval.high)} per year"


def _ability(ability: SuperiorAbility | None) -> str:
    if ability is None:
        return NOT_DEFINED
    if ability.consistent < SMALLEST_P:
        return f"p &lt; {SMALLEST_P}"
    return f"p = {number(ability.consistent, 3)}"


def _ability_note(ability: SuperiorAbility | None) -> str:
    base = "superior predictive ability (mean return): small p speaks against luck"
    if ability is None:
        return base
    return f"{base}; {plural(ability.policies, 'COMPLETE trial')}, mean block {plural(ability.block, 'bar')}"
