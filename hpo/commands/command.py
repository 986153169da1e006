"""What a command of the command line is made of. Imports argparse alone, so that --help is quick."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.config import SearchSpace


@dataclass(frozen=True)
class Context:
    """What the entry point hands to every command.

    Attributes:
        packaged_spaces: Reads the search spaces that come with foxtune, by name. It is handed in because
            the entry point alone may import ``search_spaces``.
    """

    packaged_spaces: Callable[[], Mapping[str, SearchSpace]]


@dataclass(frozen=True)
class Command:
    """One subcommand.

    Attributes:
        name: What the user types after ``foxtune``.
        summary: One line for ``foxtune --help``.
        add_arguments: Declares the command's arguments; must not import anything heavy.
        run: Does the work and returns the exit code; heavy imports stand inside it.
    """

    name: str
    summary: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace, Context], int]
