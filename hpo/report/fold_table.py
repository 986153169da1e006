"""The winner's test windows, one after the other: every seed, buy and hold, and cash on the same bars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hpo.report.tables import named_cells
from hpo.report.wording import number, percent, plural
from trainer.evaluation_file import EvaluationRows
from trainer.reports import FoldScore, WalkForwardScore
from trainer.trial_statistics import Conduct, Earnings, FoldStatistics, TrialStatistics

COLUMNS = ("Sharpe", "Return", "Drawdown", "Trades", "Turnover", "Exposure", "Hit rate", "Costs")
UNDEFINED = "\N{EN DASH}"
NOTE = (
    "<p>\N{EN DASH}: not defined. Sharpe: ratio per year, 0 if not defined. Drawdown: the deepest. Turnover: "
    "times the equity. Exposure: mean size of the position, long or short. Hit rate: share of the bars with "
    "a position that gained. Costs: share of the equity that trading took per year. Flat: cash.</p>"
)
SCORE_ALONE = "<p>More than this is not on record: the trial left no statistics of its folds.</p>"


def fold_table(
    score: WalkForwardScore, statistics: TrialStatistics | None, rows: EvaluationRows | None
) -> str:
    """A block of lines per fold, HTML; a narrow window shows every line as a small grid.

    Args:
        score: Of the winner.
        statistics: Its record; without one the table has what the score says.
        rows: Its bars, for the dates; None where they are not on record.
    """
    body = ""
    for fold in sorted({each.fold for each in score.folds}):
        scores = [each for each in score.folds if each.fold == fold]
        bars = plural(max(each.bars for each in scores), "bar")
        title = f"Fold {fold}{_window(rows, fold)}, {bars}"
        body += f'<tr class="fold"><th colspan="{len(COLUMNS) + 1}">{title}</th></tr>'
        if statistics is None:
            body += "".join(_line(f"seed {each.seed}", _of_the_score(each)) for each in scores)
        else:
            body += _lines([each for each in statistics.folds if each.fold == fold])
    head = "".join(f"<th>{column}</th>" for column in ("", *COLUMNS))
    return (
        f'<div class="scroll"><table class="cards folds"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{SCORE_ALONE if statistics is None else NOTE}"
    )


def _lines(seeds: Sequence[FoldStatistics]) -> str:
    """The seeds of a fold, then buy and hold and cash, which are the same for all that saw every bar."""
    whole = max(seeds, key=lambda each: each.conduct.bars)
    return "".join(
        (
            *(_line(_name(each, whole), [*_earned(each.earned), *_conduct(each.conduct)]) for each in seeds),
            _line("buy and hold", _earned(whole.buy_and_hold), "market"),
            _line("flat", _earned(whole.flat), "market"),
        )
    )


def _name(each: FoldStatistics, whole: FoldStatistics) -> str:
    if not each.conduct.bankrupt:
        return f"seed {each.seed}"
    early = "" if each.conduct.bars == whole.conduct.bars else f" after {plural(each.conduct.bars, 'bar')}"
    return f"seed {each.seed}, bankrupt{early}"


def _earned(earned: Earnings) -> list[str]:
    return [_ratio(earned.sharpe), percent(earned.total_return), percent(earned.max_drawdown)]


def _conduct(conduct: Conduct) -> list[str]:
    return [
        f"{conduct.trades:,}",
        number(conduct.turnover, 1),
        percent(conduct.exposure, 0),
        percent(conduct.hit_rate, 0, missing=UNDEFINED),
        percent(conduct.cost_drag, 2),
    ]


def _of_the_score(fold: FoldScore) -> list[str]:
    ratio = fold.sharpe if fold.sharpe_defined else None
    return [_ratio(ratio), percent(fold.total_return), "", f"{fold.trades:,}", number(fold.turnover, 1)]


def _ratio(value: float | None) -> str:
    return number(value, missing=UNDEFINED)


def _line(name: str, cells: Sequence[str], kind: str = "seed") -> str:
    padded = [*cells, *[""] * (len(COLUMNS) - len(cells))]
    return f'<tr class="{kind}"><th>{name}</th>{named_cells(COLUMNS, padded)}</tr>'


def _window(rows: EvaluationRows | None, fold: int) -> str:
    """First and last bar, with the time of day where a day may hold several bars."""
    if rows is None:
        return ""
    time = np.unique(rows.time[rows.fold == fold])
    if time.size == 0:
        return ""
    unit, zone = ("m", " UTC") if _intraday(rows) else ("D", "")
    first, last = (str(time[at].astype("datetime64[ns]").astype(f"datetime64[{unit}]")) for at in (0, -1))
    return f": {first.replace('T', ' ')} to {last.replace('T', ' ')}{zone}"


def _intraday(rows: EvaluationRows) -> bool:
    time: npt.NDArray[np.int64] = np.unique(rows.time)
    days = time.astype("datetime64[ns]").astype("datetime64[D]")
    return np.unique(days).size < days.size
