"""foxtune config: prints the effective configuration with where each value came from."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hpo.commands.command import Command, Context
from hpo.commands.config_flags import SEARCH_FLAGS, TRAINING_FLAGS, add_flags, effective_from

FLAGS = TRAINING_FLAGS + SEARCH_FLAGS


def _add_arguments(parser: ArgumentParser) -> None:
    add_flags(parser, FLAGS)


def _run(arguments: Namespace, context: Context) -> int:
    from hpo.effective_config import to_toml

    print(to_toml(effective_from(arguments, FLAGS)), end="")
    return 0


COMMAND = Command("config", "print the effective configuration as TOML, with origins", _add_arguments, _run)
