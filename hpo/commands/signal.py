"""foxtune signal: the positions that a trial's newest models want on new bars, as CSV."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hpo.commands.command import Command, Context
from hpo.commands.config_flags import parse_value
from hpo.commands.out_file import writing_out
from hpo.commands.study_flags import add_study_arguments, add_trial_arguments
from trainer.errors import ConfigError
from trainer.wording import plural

if TYPE_CHECKING:
    from trainer.config import TrainerConfig
    from trainer.data.market_data import MarketData
    from trainer.deployed_policy import DeployedPolicy

LEARNED = ("data.path", "data.returns", "data.capital")  # not open to --set


def _add_arguments(parser: ArgumentParser) -> None:
    add_study_arguments(parser)
    add_trial_arguments(parser)
    parser.add_argument("--model", type=Path, metavar="FILE", help="an exported file, instead of a study")
    parser.add_argument("--data", metavar="PATH", required=True, help="bars, at least 128 older ones first")
    parser.add_argument(
        "--from",
        dest="since",
        metavar="TIME",
        help="begin flat at this time, ISO 8601, UTC unless it says otherwise (default: after the warm-up)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="data.KEY=VALUE",
        help="how --data is to be read, where it is written in another way than the training's data",
    )


def _run(arguments: Namespace, context: Context) -> int:
    from trainer.data.features import WARM_UP
    from trainer.target_positions import first_row, stamp, target_positions, to_csv

    policy = chosen_policy(arguments)
    market = new_market(policy.config, arguments.data, arguments.set)
    policy.require_features(market)
    start = first_row(market, None if arguments.since is None else moment(arguments.since))
    targets = target_positions(policy, market, start)
    notes = [
        f"{market.name}: {plural(len(market.bars), 'bar')}; signals of "
        f"{plural(len(targets.time), 'bar')} from {stamp(int(targets.time[0]))}, flat before; the "
        f"features need {WARM_UP} bars of warm-up, {start} precede"
    ]
    for seed, alive in zip(targets.seeds, targets.alive, strict=True):
        if not alive.all():
            notes.append(f"seed {seed} went bankrupt before {stamp(int(targets.time[alive.argmin()]))}")
    print("\n".join(notes), file=sys.stderr)
    if arguments.out is None:
        print(to_csv(targets), end="")
        return 0
    with writing_out(arguments.out):
        arguments.out.write_text(to_csv(targets), encoding="utf-8")
    return 0


def chosen_policy(arguments: Namespace) -> DeployedPolicy:
    """Reads the policy of ``--model``, else of the study's trial.

    Raises:
        ConfigError: Both are given, or no such trial or weights.
        CheckpointError: The file is no policy.
    """
    from trainer.policy_file import read_policy

    if arguments.model is not None:
        if arguments.study or arguments.study_flag or arguments.best or arguments.number is not None:
            raise ConfigError("--model", "is one trial's file already; leave out study, --best and --number")
        return read_policy(arguments.model)

    from hpo.commands.stored_policy import read_stored_policy
    from hpo.commands.stored_trial import open_named, read_trial

    opened = open_named(arguments)
    return read_stored_policy(opened, read_trial(opened, arguments.number))


def new_market(config: TrainerConfig, path: str, settings: list[str]) -> MarketData:
    """Loads the new bars as the training's data was read, ``settings`` above it.

    Args:
        config: Of the policy.
        path: The new data.
        settings: ``data.KEY=VALUE``.

    Raises:
        ConfigError: A setting that is not about reading, or data that cannot be read.
    """
    from trainer.data.market import load_market

    # Nothing is annualised here, so that a file too short to tell its bars per year will do.
    changes: dict[str, object] = {"data.path": path, "metrics.periods_per_year": 1.0}
    for text in settings:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key.startswith("data.") or key in LEARNED:
            raise ConfigError(
                "--set",
                f"must say how --data is read, e.g. data.date_format=%d.%m.%Y, but got {text!r}; "
                "the rest is fixed by the training",
            )
        changes[key] = parse_value(key, value or text.partition("=")[2])
    return load_market(config.with_overrides(changes))


def moment(text: str) -> int:
    """Reads an ISO 8601 time as nanoseconds since 1970 UTC; without a zone it is UTC.

    Raises:
        ConfigError: For anything else.
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError("--from", f"must be a time like 2024-01-31T16:00, but got {text!r}") from None
    aware = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


COMMAND = Command("signal", "target positions for new bars, as CSV", _add_arguments, _run)
