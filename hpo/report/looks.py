"""What was done with the winner after the search: looks at the hold-out and trainings on fresh seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hpo.report.records import StudyRecord
from hpo.report.tables import card_table
from hpo.report.wording import NOT_RECORDED, moment, number, plain, plural
from hpo.study.study_records import HoldoutUse, Replication

FIRST = "first look, at untouched bars"
LATER = "NOT UNTOUCHED: looked at before"


def looks(study: StudyRecord) -> str:
    """Tables of both, HTML; says so where there are none."""
    return _holdout_table(study.holdout) + _replication_table(study.replications)


def looks_line(study: StudyRecord) -> str:
    """One sentence for the verdict; empty while the hold-out is untouched."""
    if not study.holdout:
        return ""
    first = study.holdout[0]
    again = ""
    if len(study.holdout) > 1:
        again = (
            f" It has been looked at {len(study.holdout)} times: only the first look was at untouched bars."
        )
    return (
        f"<p><b>Hold-out</b>, bars that the search never saw: trial {first.number} traded them on "
        f"{plain(first.date[:10])} at a Sharpe ratio of <b>{_ratio(first)}</b>{_market(first)}.{again}</p>"
    )


def fresh_seeds_line(study: StudyRecord, trial: int) -> str:
    """One sentence for the verdict on ``trial``; empty while it has no finished replication.

    Every fresh seed counts, whichever replication trained it: none of them was selected.
    """
    ratios = [ratio for each in study.replications if each.number == trial for ratio in each.sharpe]
    if not ratios:
        return ""
    spread = ""
    if len(ratios) > 1:
        spread = f" (standard deviation over seeds {number(float(np.std(ratios, ddof=1)))})"
    return (
        f"<p><b>Fresh seeds</b>: trained again on {plural(len(ratios), 'seed')} by which nothing was "
        f"selected, trial {trial} has a Sharpe ratio of <b>{number(math.fsum(ratios) / len(ratios))}</b> on "
        f"average{spread}.</p>"
    )


def _holdout_table(uses: Sequence[HoldoutUse]) -> str:
    if not uses:
        return "<p>The hold-out is untouched: no trial has traded it.</p>"
    rows = [
        [
            str(index),
            plain(moment(use.date)),
            str(use.number),
            f"{use.trials:,}",
            _ratio(use),
            number(use.buy_and_hold, missing=NOT_RECORDED),
            FIRST if index == 1 else LATER,
        ]
        for index, use in enumerate(uses, 1)
    ]
    warning = ""
    if len(uses) > 1:
        warning = (
            f"<p><b>The hold-out has been looked at {plural(len(uses), 'time')}.</b> Whatever was chosen "
            "after the first look was chosen with knowledge of these bars.</p>"
        )
    header = ("Look", "Date (UTC)", "Trial", "Trials then", "Sharpe (per year)", "Buy and hold", "Bars")
    return f"{warning}<h3>Looks at the hold-out</h3>{card_table(header, rows)}"


def _ratio(use: HoldoutUse) -> str:
    """Mean over seeds with its standard error where it was kept."""
    known = [ratio for _, ratio in use.sharpe if ratio is not None]
    if not known:
        return number(None)
    error = "" if use.standard_error is None else f" \N{PLUS-MINUS SIGN} {number(use.standard_error)}"
    seeds = "" if len(use.sharpe) == 1 else f", mean of {plural(len(known), 'seed')}"
    return f"{number(math.fsum(known) / len(known))}{error}{seeds}"


def _market(use: HoldoutUse) -> str:
    """What the market did on the same bars, where it was kept."""
    if use.buy_and_hold is None:
        return ""
    return f"; buy and hold had <b>{number(use.buy_and_hold)}</b> on the same bars"


def _replication_table(found: Sequence[Replication]) -> str:
    if not found:
        return ""
    rows = [
        [
            plain(moment(each.date)),
            str(each.number),
            f"{each.first_seed} to {each.first_seed + each.seeds - 1}",
            _spread(each),
        ]
        for each in found
    ]
    header = ("Date (UTC)", "Trial", "Fresh seeds", "Sharpe (per year)")
    return f"<h3>Trained again on fresh seeds</h3>{card_table(header, rows)}"


def _spread(each: Replication) -> str:
    """Mean and spread; never the best seed."""
    if not each.sharpe:
        return "not finished"
    mean = number(math.fsum(each.sharpe) / len(each.sharpe))
    if len(each.sharpe) == 1:
        return mean
    spread = number(float(np.std(each.sharpe, ddof=1)))
    lowest, highest = number(min(each.sharpe)), number(max(each.sharpe))
    return f"mean {mean}, standard deviation over seeds {spread}, from {lowest} to {highest}"
