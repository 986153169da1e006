"""The page of a study in Optuna Dashboard: metric name, what is searched on which bars, and the verdict."""

from __future__ import annotations

import warnings

import optuna
from optuna.exceptions import ExperimentalWarning

from hpo.config import SearchConfig
from hpo.dashboard.notes import literal, table, write_section
from hpo.study.attributes import DataRecord
from trainer.config import SearchSpace
from trainer.data.market_data import MarketData
from trainer.errors import ConfigError
from trainer.folds import split
from trainer.wording import plural

SEARCH = "Search"


def describe_study(study: optuna.Study, search: SearchConfig, space: SearchSpace, market: MarketData) -> None:
    """Names the metric and writes the note's section about objective, data and split.

    Args:
        study: This process is its driver.
        search: The effective configuration.
        space: What is searched.
        market: The bars.
    """
    metric: list[str] = [search.trainer.metrics.objective]
    if study.metric_names != metric:
        with warnings.catch_warnings():
            # Experimental since Optuna 3.2; without it every axis of the dashboard reads "Objective Value".
            warnings.simplefilter("ignore", ExperimentalWarning)
            study.set_metric_names(metric)
    write_section(study, SEARCH, search_section(search, space, market))


def search_section(search: SearchConfig, space: SearchSpace, market: MarketData) -> str:
    """Markdown: objective, data, dates of every fold and of the hold-out, searched parameters."""
    data = DataRecord.of(market, search.trainer.data.path)
    metrics, training = search.trainer.metrics, search.trainer.training
    names = ", ".join(f"`{parameter.name}`" for parameter in space.parameters)
    return "\n\n".join(
        (
            f"**Objective** `{metrics.objective}`, maximised: walk-forward Sharpe ratio per year of net "
            f"returns, out of sample. {plural(training.seeds, 'seed')}, {plural(training.epochs, 'epoch')}; "
            f"a seed with fewer than {plural(metrics.min_trades, 'trade')} is degenerate, and its trial "
            "infeasible.",
            f"**Data** {literal(data.name)}: {data.rows:,} bars from {data.first} to {data.last}, "
            f"{data.periods_per_year:.0f} a year, hash `{data.hash[:12]}`.",
            _split_table(search, market),
            f"**Space** {literal(space.name)}: {names}.",
        )
    )


def _split_table(search: SearchConfig, market: MarketData) -> str:
    stamps = market.bars.timestamp
    try:
        cut = split(len(stamps), search.trainer.walk_forward)
    except ConfigError as error:
        return f"**Split** none: {literal(error)}"  # the trainings say the same and fail

    def day(row: int) -> str:
        return str(stamps[row].astype("datetime64[ns]").astype("datetime64[m]")).removesuffix("T00:00")

    def span(start: int, stop: int) -> tuple[str, str]:
        return (f"{day(start)} to {day(stop - 1)}", f"{stop - start:,}")

    rows = [
        (
            str(index),
            *span(fold.train_start, fold.train_stop),
            *span(fold.test_start, fold.test_stop),
        )
        for index, fold in enumerate(cut.folds)
    ]
    held = "**Hold-out** none."
    if cut.holdout_start < len(stamps):
        dates, _ = span(cut.holdout_start, len(stamps))
        bars = plural(len(stamps) - cut.holdout_start, "bar", ",")
        held = f"**Hold-out** {dates}, {bars}, which the search never sees."
    header = ("fold", "trained on", "bars", "tested on", "bars")
    return f"{table(header, rows)}\n\n{held}"
