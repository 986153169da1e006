"""foxtune tune: starts a search."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from hpo.commands.command import Command, Context
from hpo.commands.config_flags import SEARCH_FLAGS, TRAINING_FLAGS, add_flags, effective_from
from hpo.commands.output import Output, add_output_arguments, chosen_output

FLAGS = TRAINING_FLAGS + SEARCH_FLAGS
LOOKED_FOR = "looked for in the new study's storage, else where its own folder below --runs says"


def _add_arguments(parser: ArgumentParser) -> None:
    add_flags(parser, FLAGS)
    add_output_arguments(parser)
    parser.add_argument(
        "--fork",
        metavar="STUDY",
        help=f"first copy the comparable trials of this study, which stays as it is; {LOOKED_FOR}",
    )
    parser.add_argument(
        "--warm-start",
        metavar="STUDY",
        help=f"first try the best parameters of this study, {LOOKED_FOR}",
    )


def _run(arguments: Namespace, context: Context) -> int:
    with chosen_output(arguments) as output:
        return _search(arguments, context, output)


def _search(arguments: Namespace, context: Context, output: Output) -> int:
    from hpo.sampling.space_files import load_space

    config = effective_from(arguments, FLAGS).config
    space = load_space(config.space, context.packaged_spaces())

    from hpo.commands.search_flow import close_search
    from hpo.tuner import tune

    outcome = tune(
        config,
        space,
        fork_from=arguments.fork,
        warm_start=arguments.warm_start,
        say=partial(print, flush=True),
        display=output.display,
    )
    return close_search(outcome, output.summary)


COMMAND = Command("tune", "start a search", _add_arguments, _run)
