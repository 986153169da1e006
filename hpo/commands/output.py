"""What ``tune`` and ``resume`` print: text for people, or one JSON object per line for machines."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpo.outcome import SearchOutcome
    from hpo.progress.progress import Display


@dataclass(frozen=True)
class Output:
    """Where a search is told.

    Attributes:
        display: Shows progress; ``None``: as stderr allows.
        summary: Takes the outcome and the report's path in the end.
    """

    display: Display | None
    summary: Callable[[SearchOutcome, str], None]


def add_output_arguments(parser: ArgumentParser) -> None:
    """Declares ``--json``."""
    parser.add_argument(
        "--json",
        action="store_true",
        help="stdout holds one JSON object per line (start, trial_started, trial_finished, summary); "
        "what is for people goes to stderr",
    )


@contextmanager
def chosen_output(arguments: Namespace) -> Iterator[Output]:
    """Gives the output that was asked for; with ``--json`` everything printed meanwhile goes to stderr."""
    if not arguments.json:
        yield Output(None, lambda outcome, report: None)
        return
    from hpo.progress.progress import JsonDisplay

    display = JsonDisplay(sys.stdout, print)
    with redirect_stdout(sys.stderr):
        yield Output(display, display.summary)
