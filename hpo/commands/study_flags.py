"""The arguments that name an existing study, shared by the commands that read one."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from trainer.errors import ConfigError


def add_study_arguments(parser: ArgumentParser) -> None:
    """Declares the study's name (as a word or with ``--study``), ``--storage`` and ``--runs``."""
    parser.add_argument("study", nargs="?", metavar="STUDY", help="name of the study")
    parser.add_argument("--study", dest="study_flag", metavar="NAME", help="the same as STUDY")
    parser.add_argument("--storage", metavar="URL", help="where it lies, if not in its folder below --runs")
    parser.add_argument("--runs", default="runs", metavar="DIR", help="folder of the studies (default: runs)")


def add_trial_arguments(parser: ArgumentParser) -> None:
    """Declares ``--best`` and ``--number``, which of a study's trials is meant."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--best", action="store_true", help="the best trial (default)")
    which.add_argument("--number", type=int, metavar="N", help="this trial")


def study_name(arguments: Namespace) -> str:
    """Returns the study's name.

    Raises:
        ConfigError: If none is given, or two different ones.
    """
    names = {name for name in (arguments.study, arguments.study_flag) if name is not None}
    if len(names) == 1:
        return str(names.pop())
    if names:
        raise ConfigError("--study", f"must name one study, but got {' and '.join(sorted(names))}")
    runs = Path(arguments.runs)
    found = sorted(
        (path.parent for path in runs.glob("*/search.json")), key=lambda path: path.stat().st_mtime
    )
    known = ", ".join(path.name for path in reversed(found)) or "no study"
    raise ConfigError("--study", f"must name a study; {runs} holds, newest first: {known}")
