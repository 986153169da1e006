"""foxtune report: writes a study's report, one HTML file that needs nothing else."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from hpo.commands.command import Command, Context
from hpo.commands.search_flow import REPORT
from hpo.commands.study_flags import add_study_arguments


def _add_arguments(parser: ArgumentParser) -> None:
    add_study_arguments(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"default: {REPORT} in the study's folder")


def _run(arguments: Namespace, context: Context) -> int:
    from hpo.commands.stored_trial import open_named
    from hpo.dashboard.figures import publish_unless_driven
    from hpo.report import read_report, write_page

    opened = open_named(arguments)
    if opened.reconciliation.message is not None:
        print(opened.reconciliation.message)
    path = arguments.out or opened.directory.path / REPORT
    reading = read_report(opened.study, opened.directory.path)
    print(write_page(reading, path))
    left = publish_unless_driven(reading, opened.directory)
    if left is not None:
        print(left)
    return 0


COMMAND = Command("report", "write a study's report", _add_arguments, _run)
