"""foxtune report: writes a study's report, one HTML file that needs nothing else."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpo.commands.command import Command, Context
from hpo.commands.out_file import writing_out
from hpo.commands.search_flow import REPORT
from hpo.commands.study_flags import add_study_arguments
from trainer.errors import ConfigError

if TYPE_CHECKING:
    from hpo.report.reading import Reading


def _add_arguments(parser: ArgumentParser) -> None:
    add_study_arguments(parser)
    parser.add_argument(
        "--costs",
        type=costs_of,
        metavar="BP,BP,...",
        help="score the best trials' stored positions at these costs of a market order, in basis points",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"default: {REPORT} in the study's folder")


def _run(arguments: Namespace, context: Context) -> int:
    from hpo.commands.stored_trial import open_named
    from hpo.dashboard.figures import publish_unless_driven
    from hpo.report import read_report, write_page
    from hpo.report.cost_sweep import USUAL_COSTS
    from hpo.study.trial_files import files_elsewhere

    opened = open_named(arguments)
    if opened.reconciliation.message is not None:
        print(opened.reconciliation.message)
    path = arguments.out or opened.directory.path / REPORT
    reading = read_report(opened.study, opened.directory.path)
    if (left_out := files_elsewhere(opened.study, opened.directory)) is not None:
        print(left_out)
    costs = arguments.costs or USUAL_COSTS
    if arguments.costs is not None:
        print("\n".join(_sweep(reading, costs)))
    with writing_out(path):
        write_page(reading, path, costs)
    print(path)
    left = publish_unless_driven(reading, opened.directory)
    if left is not None:
        print(left)
    return 0


def costs_of(text: str) -> tuple[float, ...]:
    """Reads ``0,1,2.5``.

    Raises:
        ArgumentTypeError: For anything but numbers of at least 0.
    """
    try:
        costs = tuple(float(part) for part in text.split(","))
    except ValueError:
        costs = ()
    if not costs or not all(0 <= cost < float("inf") for cost in costs):
        raise ArgumentTypeError(f"costs must be basis points of at least 0 like 0,1,2.5, but got {text!r}")
    return costs


def _sweep(reading: Reading, costs: Sequence[float]) -> list[str]:
    from hpo.report.cost_ranking import cost_ranking, ranking_lines
    from hpo.report.cost_sweep import break_even, cost_sweep, no_sweep, sweep_lines, terms_of

    best, rows, findings = reading.best, reading.rows, reading.findings
    terms = None if best is None or rows is None else terms_of(best.config, rows)
    if best is None or rows is None or findings is None or terms is None:
        raise ConfigError("--costs", no_sweep(reading.record, best, rows) or "the winner has no scored bars")
    periods_per_year = findings.periods_per_year
    lines = [
        f"trial {best.number} at other costs, its positions unchanged",
        *sweep_lines(cost_sweep(rows, costs, terms, periods_per_year), break_even(rows, terms)),
    ]
    ranking = cost_ranking(reading.record, best, costs, periods_per_year)
    return lines if ranking is None else [*lines, *ranking_lines(ranking)]


COMMAND = Command("report", "write a study's report", _add_arguments, _run)
