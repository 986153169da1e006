"""foxtune check: reads a bar file, says what was understood and what the leak guards find; trains nothing."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hpo.commands.command import Command, Context
from hpo.commands.config_flags import TRAINING_FLAGS, Flag, add_flags, effective_from
from trainer.errors import ConfigError

FLAGS: tuple[Flag, ...] = tuple(flag for flag in TRAINING_FLAGS if flag.option == "--folds")


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("data", help="sp500, nasdaq, or a path to a CSV or Parquet file")
    add_flags(parser, FLAGS)


def _run(arguments: Namespace, context: Context) -> int:
    from trainer.data.market import load_market
    from trainer.data.summary import LABEL_WIDTH, describe
    from trainer.folds import split
    from trainer.leaks.guard import Judgement
    from trainer.leaks.guards import verdicts

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
    found = verdicts(market, parts, config)
    for verdict in found:
        print(f"{verdict.guard:<{LABEL_WIDTH}} {verdict.judgement.value}: {verdict.message}")
    return int(any(verdict.judgement is Judgement.LEAK for verdict in found))


COMMAND = Command("check", "read a bar file and say what was understood", _add_arguments, _run)
