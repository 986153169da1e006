"""The program: ``foxtune`` and ``python -m hpo``.

Next to nothing is imported here, so that ctrl-C meets the imports of the command line where it is caught.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # that of typing would have to be imported
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from trainer.config import SearchSpace

EXIT_INTERRUPTED = 130
SIGNALLED = 128  # plus the signal's number, as shells say it


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: The words after the program's name; ``sys.argv`` if not given.

    Returns:
        The exit code: 130 interrupted, else that of :func:`hpo.command_line.run`.
    """
    try:
        from hpo.command_line import run
        from hpo.commands.command import Context

        return run(argv, Context(packaged_spaces=_packaged_spaces))
    except (KeyboardInterrupt, ImportError, SystemError) as error:
        if "--debug" in (sys.argv if argv is None else argv) or not _is_interrupt(error):
            raise
        print("foxtune: interrupted", file=sys.stderr)
        code: int = getattr(error, "exit_code", EXIT_INTERRUPTED)  # SIGTERM has its own
        return code


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
    from hpo.storage.full_disk import chain

    return any(isinstance(each, KeyboardInterrupt) for each in chain(error))


def _packaged_spaces() -> Mapping[str, SearchSpace]:
    from search_spaces import packaged

    return packaged()


if __name__ == "__main__":
    program()
