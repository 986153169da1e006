"""foxtune check: reads a bar file and prints what was understood, without training."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hpo.commands.command import Command, Context
from hpo.commands.config_flags import Flag, add_flags, effective_from
from trainer.errors import ConfigError

FLAGS: tuple[Flag, ...] = ()


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("data", help="sp500, nasdaq, or a path to a CSV or Parquet file")
    add_flags(parser, FLAGS)


def _run(arguments: Namespace, context: Context) -> int:
    from trainer.data.market import load_market
    from trainer.data.summary import describe
    from trainer.folds import split

    effective = effective_from(arguments, FLAGS)
    config = effective.config.trainer.with_overrides({"data.path": arguments.data})
    market = load_market(config)
    try:
        parts = split(len(market.bars), config.walk_forward)
    except ConfigError as error:
        # A file too short to train on can still be looked at.
        print(f"{describe(market)}\nfolds: none, {error}")
        return 0
    print(describe(market, parts))
    return 0


COMMAND = Command("check", "read a bar file and say what was understood", _add_arguments, _run)
