"""foxtune replay: trains a study's best or numbered trial again and compares every epoch's score.

On the CPU the scores must be equal bit for bit; the exit code is 1 where they are not.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from hpo.commands.command import Command, Context
from hpo.commands.study_flags import add_study_arguments, add_trial_arguments
from hpo.commands.train_directory import require_writable
from trainer.errors import ConfigError
from trainer.wording import plural

if TYPE_CHECKING:
    from hpo.commands.stored_trial import StoredTrial
    from trainer.config import TrainerConfig
    from trainer.data.market_data import MarketData
    from trainer.reports import EpochReport


def _add_arguments(parser: ArgumentParser) -> None:
    add_study_arguments(parser)
    add_trial_arguments(parser)
    parser.add_argument("--data", metavar="PATH", help="where the data lies now; its hash must be the same")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="run directory (default: in the study's folder)"
    )
    parser.add_argument("--dry", action="store_true", help="print the trial's record; train nothing")


def _run(arguments: Namespace, context: Context) -> int:
    from hpo.commands.stored_trial import describe, open_named, read_trial

    opened = open_named(arguments)
    stored = read_trial(opened, arguments.number)
    print(describe(stored))
    if arguments.dry:
        return 0
    recorded = {epoch: value for epoch, value in sorted(stored.trial.intermediate_values.items())}
    if not recorded:
        raise ConfigError(
            "--number",
            f"trial {stored.trial.number} has no score to compare; to look at it, use "
            f"foxtune train --from-study {stored.study} --number {stored.trial.number}",
        )
    market = matching_market(stored, arguments.data)
    directory = arguments.out or opened.directory.path / "replays" / f"{stored.trial.number:04d}"
    require_writable(directory)
    return compare(stored.config, market, directory, recorded)


def matching_market(stored: StoredTrial, path: str | None) -> MarketData:
    """Loads the data that the trial saw.

    Args:
        stored: The trial.
        path: Where the data lies now; None for the recorded path.

    Raises:
        ConfigError: If the data found is other data.
    """
    from trainer.data.market import load_market

    config = stored.config if path is None else stored.config.with_overrides({"data.path": path})
    market = load_market(config)
    if market.data_hash != stored.data_hash:
        raise ConfigError(
            "data.path",
            f"trial {stored.trial.number} saw data with hash {stored.data_hash[:12]}, but {market.name} "
            f"has {market.data_hash[:12]}; name the same data with --data",
        )
    return market


def compare(config: TrainerConfig, market: MarketData, directory: Path, recorded: dict[int, float]) -> int:
    """Trains up to the last recorded epoch and holds every score against the record.

    Args:
        config: Of the trial.
        market: The data that it saw.
        directory: For weights and evaluation; a checkpoint there is not continued.
        recorded: Epoch (from 1) -> score, at least one.

    Returns:
        0 if all are equal bit for bit, else 1.
    """
    from hpo.commands.epoch_table import header, line
    from trainer.folds import split
    from trainer.training import run_training

    folds = len(split(len(market.bars), config.walk_forward).folds)
    last = max(recorded)
    replayed: dict[int, float] = {}

    def show(report: EpochReport) -> None:
        replayed[report.epoch] = report.score.value
        print(line(report, folds), flush=True)

    print(header(folds), flush=True)
    run_training(config, market, directory, on_epoch=show, should_stop=lambda: len(replayed) >= last)
    different = [epoch for epoch, value in recorded.items() if replayed[epoch] != value]
    for epoch in different:
        print(f"epoch {epoch}: recorded {recorded[epoch]!r}, replayed {replayed[epoch]!r}")
    if different:
        print(f"NOT equal in {len(different)} of {plural(len(recorded), 'epoch')}")
        return 1
    print(f"equal bit for bit in {plural(len(recorded), 'epoch')}; objective {recorded[last]!r}")
    return 0


COMMAND = Command("replay", "train a study's trial again and compare the objective", _add_arguments, _run)
