"""foxtune tune: starts a search."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hpo.commands.command import Command, Context
from hpo.commands.config_flags import SEARCH_FLAGS, TRAINING_FLAGS, add_flags, effective_from
from hpo.commands.output import Output, add_output_arguments, chosen_output

FLAGS = TRAINING_FLAGS + SEARCH_FLAGS


def _add_arguments(parser: ArgumentParser) -> None:
    add_flags(parser, FLAGS)
    add_output_arguments(parser)
    parser.add_argument(
        "--fork", metavar="STUDY", help="first copy the comparable trials of this study, which stays as it is"
    )
    parser.add_argument(
        "--warm-start",
        metavar="STUDY",
        help="first try the best parameters of this study",
    )


def _run(arguments: Namespace, context: Context) -> int:
    with chosen_output(arguments) as output:
        return _search(arguments, context, output)


def _search(arguments: Namespace, context: Context, output: Output) -> int:
    from hpo.cluster_address import joins
    from hpo.combinations import require_legal_combinations
    from hpo.resources import check_gpus, visible_gpus
    from hpo.space_files import load_space

    config = effective_from(arguments, FLAGS).config
    space = load_space(config.space, context.packaged_spaces())
    require_legal_combinations(space, config.trial_trainer)
    if config.gpus_per_trial > 0 and not joins(config.ray.address):
        check_gpus(config, visible_gpus())

    from hpo.advice import configuration_advice
    from hpo.commands.search_flow import close_search
    from hpo.search_market import load_market
    from hpo.tuner import tune
    from trainer.folds import require_min_folds, split

    warnings: list[str] = []
    market = load_market(config, warnings.append)
    parts = split(len(market.bars), config.trainer.walk_forward)
    require_min_folds(parts, config.trainer.walk_forward)
    for line in (*warnings, *configuration_advice(config.trainer)):
        print(line)
    print(
        f"study {config.study}: {config.trials} trials of {space.name} on {market.name}, "
        f"{len(market.bars)} bars, {len(parts.folds)} folds",
        flush=True,
    )
    outcome = tune(
        config,
        space,
        fork_from=arguments.fork,
        warm_start=arguments.warm_start,
        market=market,
        guarded=True,
        say=print,
        display=output.display,
    )
    return close_search(outcome, output.summary)


COMMAND = Command("tune", "start a search", _add_arguments, _run)
