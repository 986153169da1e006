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
    from hpo.report import write_report

    opened = open_named(arguments)
    if opened.reconciliation.message is not None:
        print(opened.reconciliation.message)
    path = arguments.out or opened.directory.path / REPORT
    print(write_report(opened.study, opened.directory.path, path))
    return 0


COMMAND = Command("report", "write a study's report", _add_arguments, _run)
