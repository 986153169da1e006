"""foxtune holdout: trades the untouched bars once with a trial's newest models, and keeps count of it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from hpo.commands.command import Command, Context
from hpo.commands.study_flags import add_study_arguments, add_trial_arguments
from trainer.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpo.commands.stored_trial import StoredTrial
    from hpo.study.study_records import HoldoutUse
    from trainer.data.market_data import MarketData
    from trainer.holdout import Holdout, Performance


def _add_arguments(parser: ArgumentParser) -> None:
    add_study_arguments(parser)
    add_trial_arguments(parser)
    parser.add_argument("--data", metavar="PATH", help="where the data lies now; its hash must be the same")


def _run(arguments: Namespace, context: Context) -> int:
    from hpo.commands.replay import matching_market
    from hpo.commands.stored_policy import read_stored_policy
    from hpo.commands.stored_trial import open_named, read_trial
    from hpo.study.study_records import HoldoutUse, add_holdout_use, now
    from trainer.holdout import evaluate_holdout

    opened = open_named(arguments)
    stored = read_trial(opened, arguments.number)
    policy = read_stored_policy(opened, stored)
    market = matching_market(stored, arguments.data)
    result = evaluate_holdout(policy, market)
    errors = [
        each.performance.standard_error
        for each in result.seeds
        if each.performance.standard_error is not None
    ]
    use = HoldoutUse(
        date=now(),
        number=stored.trial.number,
        trials=len(opened.study.get_trials(deepcopy=False)),
        sharpe=tuple((each.seed, each.performance.sharpe) for each in result.seeds),
        standard_error=max(errors, default=None),
        buy_and_hold=result.buy_and_hold.sharpe,
    )
    earlier = add_holdout_use(opened, use)  # counted before anyone sees a number
    print("\n".join([*heading(stored, result, market), "", *table(result), "", *history(earlier)]))
    return 0


def heading(stored: StoredTrial, result: Holdout, market: MarketData) -> list[str]:
    """Says which models traded which bars."""
    from hpo.study.attributes import read_score
    from trainer.target_positions import stamp

    time = market.bars.timestamp
    bars = result.stop - result.start - 1
    lines = [
        f"study {stored.study}, trial {stored.trial.number}: hold-out of {market.name}, "
        f"{stamp(int(time[result.start]))} to {stamp(int(time[result.stop - 1]))}, {plural(bars, 'bar')}, "
        f"{bars / market.periods_per_year:.1f} years",
        f"traded by the model of fold {result.fold}, the last, of every seed; it was trained on rows "
        f"{result.train.train_start}..{result.train.train_stop - 1}, and the hold-out begins at row "
        f"{result.start}",
    ]
    score = read_score(stored.trial)
    if score is not None:
        sharpe = sum(value for _, value in score.per_seed) / len(score.per_seed)
        lines.append(f"in the search, out of sample: Sharpe {sharpe:.3f} +- {score.standard_error:.3f}")
    return lines


def table(result: Holdout) -> list[str]:
    """One line per seed and one for buy-and-hold; errors after Lo (2002), annualised like the ratio."""
    lines = [f"{'':<14}{'Sharpe':>18}{'return':>10}{'drawdown':>10}{'trades':>8}{'bars':>7}"]
    for each in result.seeds:
        ruined = "  bankrupt" if each.bankrupt else ""
        lines.append(f"{f'seed {each.seed}':<14}{_numbers(each.performance, str(each.trades))}{ruined}")
    lines.append(f"{'buy and hold':<14}{_numbers(result.buy_and_hold, '')}")
    return lines


def history(earlier: Sequence[HoldoutUse]) -> list[str]:
    """Says plainly whether the bars were still untouched."""
    if not earlier:
        return ["first look at this study's hold-out; date and count are stored in the study"]
    looks = ", ".join(f"{use.date} (trial {use.number})" for use in earlier)
    times = "once" if len(earlier) == 1 else f"{len(earlier)} times"
    return [
        f"NOT UNTOUCHED: this study's hold-out was looked at {times} before, on {looks}; "
        f"this is look {len(earlier) + 1}",
        "whatever was chosen after the first look was chosen with knowledge of these bars",
    ]


def _numbers(performance: Performance, trades: str) -> str:
    ratio = "undefined"
    if performance.sharpe is not None and performance.standard_error is not None:
        ratio = f"{performance.sharpe:.3f} +- {performance.standard_error:.3f}"
    return (
        f"{ratio:>18}{performance.total_return:>10.2%}{performance.max_drawdown:>10.2%}{trades:>8}"
        f"{performance.bars:>7}"
    )


COMMAND = Command("holdout", "trade the untouched bars once with a study's trial", _add_arguments, _run)
