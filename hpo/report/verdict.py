"""The first screen: what was found, how sure that is, and what holding the market would have done."""

from __future__ import annotations

from collections import Counter

from hpo.report.facts import facts
from hpo.report.findings import Findings
from hpo.report.looks import fresh_seeds_line, looks_line
from hpo.report.records import StudyRecord, TrialRecord
from hpo.report.wording import NOT_DEFINED, number, percent, plain, plural, probability
from trainer.trial_statistics import Earnings

STATES = ("COMPLETE", "PRUNED", "FAIL", "RUNNING", "WAITING")
CONVINCING = 0.95


def verdict(study: StudyRecord, best: TrialRecord | None, findings: Findings | None) -> str:
    """The first section, HTML."""
    parts = [_headline(study, best, findings), _states(study)]
    if findings is not None and best is not None and not best.degenerate:
        parts += [_deflation(findings), _comparison(findings)]
        parts += [fresh_seeds_line(study, best.number), looks_line(study)]
    return "\n".join(parts)


def _headline(study: StudyRecord, best: TrialRecord | None, findings: Findings | None) -> str:
    if best is None:
        return _no_result(study)
    if best.degenerate:
        return _big(
            "No usable score",
            f"Every COMPLETE trial, {len(study.complete):,} in all, is degenerate and scores "
            f"{number(best.value)}. Trial {best.number}: {plain(best.reason or 'no reason is on record')}.",
        )
    if findings is None:
        return _big(
            f"{number(best.value)}",
            f"objective of the best trial, number {best.number}. The study keeps no details of its score, "
            "so neither its error nor the years of data can be told.",
        )
    seeds = len(findings.score.per_seed)
    averaged = "" if seeds == 1 else f", mean over {seeds} seeds"
    return (
        f"{facts(findings, best.number)}<p>Best trial: <b>number {best.number}</b>. Walk-forward Sharpe ratio"
        f"{averaged}, net of costs; \N{PLUS-MINUS SIGN} is one standard error."
        f"{_objective_note(best, findings)}</p>"
    )


def _no_result(study: StudyRecord) -> str:
    if not study.trials:
        return _big("No trials yet", "The study is empty: nothing has been started.")
    reasons = Counter(trial.reason for trial in study.trials if trial.state == "FAIL" and trial.reason)
    why = ""
    if reasons:
        reason, count = reasons.most_common(1)[0]
        why = f" The commonest reason of failure, {plural(count, 'time')}: <b>{plain(reason)}</b>."
    if all(trial.state == "FAIL" for trial in study.trials):
        return _big("Every trial failed", f"There is no score to report.{why}")
    return _big("No result yet", f"No trial has run to its end.{why}")


def _objective_note(best: TrialRecord, findings: Findings) -> str:
    if best.value is None or abs(best.value - findings.ratio) < 5e-3:
        return ""
    objective = best.config.get("metrics", {}).get("objective", "the study's objective")
    if objective == "wf_sharpe":
        return f" As an objective it counts {number(best.value)}, the limit of the scale."
    return f" The search maximised another number, {plain(objective)}: {number(best.value)}."


def _states(study: StudyRecord) -> str:
    counts = Counter(trial.state for trial in study.trials)
    degenerate = sum(trial.degenerate for trial in study.complete)
    chips = [
        f'<span class="chip {state.lower()}">{counts[state]:,} {state}</span>'
        for state in STATES
        if counts[state]
    ]
    if degenerate:
        chips.append(f'<span class="chip">{degenerate:,} of the COMPLETE degenerate</span>')
    return f'<p class="chips">{plural(len(study.trials), "trial")}: {" ".join(chips)}</p>'


def _deflation(findings: Findings) -> str:
    if findings.started == 1 and findings.probability is not None:
        return (
            "<p><b>Is it luck?</b> Only 1 trial was started, so nothing was selected. The probability that "
            f"its true ratio is above 0 is <b>{probability(findings.probability)}</b> (probabilistic Sharpe "
            "ratio, which equals the deflated one here).</p>"
        )
    tried = plural(findings.started, "trial")
    if findings.deflated is None:
        missing = NOT_DEFINED
        if findings.winner is None:
            missing = "what it earned out of sample is not on record"
        elif findings.luck is None:
            missing = "fewer than two trials keep a score, so their spread is unknown"
        return f"<p>Deflated Sharpe ratio: cannot be told ({missing}); {tried} were started.</p>"
    return (
        f"<p><b>Is it luck?</b> {tried} were started; the best of as many worthless ones would show "
        f"{number(findings.luck)} by chance. The probability that the true ratio is above that (deflated "
        f"Sharpe ratio) is <b>{probability(findings.deflated)}</b>, the rest is luck: "
        f"{_judgement(findings.deflated)}</p>"
    )


def _judgement(deflated: float) -> str:
    if deflated >= CONVINCING:
        return "selection among the trials does not explain this result."
    if deflated >= 0.5:
        return (
            "the result is better than selection alone would suggest, but not convincingly (95 % is usual)."
        )
    return "a search of this size would find such a result among worthless configurations."


def _comparison(findings: Findings) -> str:
    if findings.winner is None:
        return "<p>Buy and hold: the out-of-sample bars of the best trial are not on record.</p>"
    rows = _earned_row("Best trial, net", findings.winner.policy)
    rows += _earned_row("Buy and hold", findings.winner.benchmark)
    return (
        '<div class="scroll"><table class="compare"><thead><tr><th></th><th>Return</th>'
        f"<th>Deepest drawdown</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _earned_row(name: str, earned: Earnings) -> str:
    return (
        f"<tr><th>{name}</th><td>{percent(earned.total_return)}</td>"
        f"<td>{percent(earned.max_drawdown)}</td></tr>"
    )


def _big(figure: str, text: str) -> str:
    return f'<div class="big"><div class="figure">{figure}</div><p>{text}</p></div>'
