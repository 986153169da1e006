"""The command line behind ``foxtune``: its parser, and how a command ends.

Only argparse and the command modules are imported here; a command imports what it needs when it runs.
A user's error is printed as one line and ends with exit code 2.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from hpo.commands import COMMANDS
from hpo.commands.command import Command, Context
from hpo.file_trouble import file_trouble
from hpo.storage.full_disk import full_disk
from hpo.storage.storage_trouble import storage_trouble
from trainer.errors import FoxtuneError

EXIT_USER_ERROR = 2
EXIT_PIPE_CLOSED = 141
NEARLY = 0.75  # similarity of two flags: that of --trails and --trials is 0.88, of --fee and --seed 0.73


def run(argv: Sequence[str] | None, context: Context) -> int:
    """Runs one command.

    Args:
        argv: The words after the program's name; ``sys.argv`` if not given.
        context: Handed to the command.

    Returns:
        The exit code: 0 done, 1 done with a negative answer, 2 a user's error, 141 nobody reads on.
    """
    parser = build_parser()
    for word in sys.argv[1:] if argv is None else argv:
        if not _can_be_stored(word):
            parser.error(f"{word!r} is not UTF-8, so that no file could name it; rename it")
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        arguments.parser.refuse(unknown[0])
    command: Command = arguments.command
    debug = arguments.debug or arguments.debug_late
    try:
        return command.run(arguments, context)
    except FoxtuneError as error:
        if debug:
            raise
        print(f"foxtune: error: {error}", file=sys.stderr)
        return EXIT_USER_ERROR
    except BrokenPipeError:
        # The reader (`| head`) has gone; the interpreter's own flush at exit would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE_CLOSED
    except Exception as error:
        if debug or (line := _line_of(error)) is None:
            raise
        print(f"foxtune: error: {line}", file=sys.stderr)
        return EXIT_USER_ERROR


def _can_be_stored(word: str) -> bool:
    """Whether a word of the command line is text: Python lets bytes that are none through as surrogates."""
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _line_of(error: Exception) -> str | None:
    return full_disk(error) or storage_trouble(error) or file_trouble(error)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, like every other error, and where the flags are explained."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USER_ERROR, f"foxtune: error: {message}; see {self.prog} --help\n")

    def refuse(self, word: str) -> NoReturn:
        """Says that the command has no such argument, and which flag of it is spelt nearly so."""
        flag = word.partition("=")[0]
        near = difflib.get_close_matches(flag, self._option_string_actions, n=1, cutoff=NEARLY)
        self.error("; the nearest known one is ".join([f"unknown argument {flag}", *near]))


def build_parser() -> argparse.ArgumentParser:
    """Declares all commands without importing anything heavy."""
    parser = _Parser(
        prog="foxtune",
        description="Search hyperparameters of reinforcement-learned trading, scored by walk-forward Sharpe.",
        epilog="foxtune COMMAND --help explains a command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"foxtune {_version()}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(
            command.name, help=command.summary, description=command.summary, allow_abbrev=False
        )
        subparser.add_argument(
            "--debug", action="store_true", dest="debug_late", help="show the traceback of an error"
        )
        command.add_arguments(subparser)
        subparser.set_defaults(command=command, parser=subparser)
    return parser


def _version() -> str:
    from hpo import __version__

    return __version__
