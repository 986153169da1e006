"""The command line: ``foxtune`` and ``python -m hpo``.

Only argparse and the command modules are imported here; a command imports what it needs when it runs.
A user's error is printed as one line and ends with exit code 2, an interrupt with 130.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from hpo.commands import COMMANDS
from hpo.commands.command import Command, Context
from hpo.full_disk import chain, full_disk
from hpo.storage_trouble import storage_trouble
from trainer.errors import FoxtuneError

if TYPE_CHECKING:
    from trainer.config import SearchSpace

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141
NEARLY = 0.75  # similarity of two flags: that of --trails and --trials is 0.88, of --fee and --seed 0.73
SIGNALLED = 128  # plus the signal's number, as shells say it


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: The words after the program's name; ``sys.argv`` if not given.

    Returns:
        The exit code: 0 done, 1 done with a negative answer, 2 a user's error, 130 interrupted.
    """
    arguments, unknown = build_parser().parse_known_args(argv)
    if unknown:
        arguments.parser.refuse(unknown[0])
    command: Command = arguments.command
    debug = arguments.debug or arguments.debug_late
    try:
        return command.run(arguments, Context(packaged_spaces=_packaged_spaces))
    except FoxtuneError as error:
        if debug:
            raise
        print(f"foxtune: error: {error}", file=sys.stderr)
        return EXIT_USER_ERROR
    except (KeyboardInterrupt, ImportError, SystemError) as error:
        if debug or not _is_interrupt(error):
            raise
        print("foxtune: interrupted", file=sys.stderr)
        code: int = getattr(error, "exit_code", EXIT_INTERRUPTED)  # SIGTERM has its own
        return code
    except BrokenPipeError:
        # The reader (`| head`) has gone; the interpreter's own flush at exit would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE_CLOSED
    except Exception as error:
        if debug or (line := full_disk(error) or storage_trouble(error)) is None:
            raise
        print(f"foxtune: error: {line}", file=sys.stderr)
        return EXIT_USER_ERROR


def program() -> NoReturn:
    """Runs the command line as the whole process."""
    code = main()
    if code > SIGNALLED:
        # Where a signal met an extension that was just evaluating Python (importing torch does), CPython
        # would end with SIGINT and not with this code, though the interrupt was caught.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _is_interrupt(error: BaseException) -> bool:
    # An extension module that ctrl-C stops while it is being imported reports an ImportError, and one that
    # does not pass the interrupt on makes Python report a SystemError.
    return any(isinstance(each, KeyboardInterrupt) for each in chain(error))


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


def _packaged_spaces() -> Mapping[str, SearchSpace]:
    from search_spaces import packaged

    return packaged()


def _version() -> str:
    from hpo import __version__

    return __version__


if __name__ == "__main__":
    program()
