"""foxtune replicate: trains a trial's configuration on fresh seeds, as one stack; mean and spread.

The trial was chosen for its value, and part of that value is the luck of its seeds. Fresh seeds have not
been chosen, so their mean is the fairer figure; the best of them would be luck again and is never named.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
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
    from trainer.reports import EpochReport, WalkForwardScore

FEWEST_SEEDS = 2  # a spread needs two


def _add_arguments(parser: ArgumentParser) -> None:
    add_study_arguments(parser)
    add_trial_arguments(parser)
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="fresh seeds (default: 10)")
    parser.add_argument("--data", metavar="PATH", help="where the data lies now; its hash must be the same")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="run directory (default: in the study's folder)"
    )


def _run(arguments: Namespace, context: Context) -> int:
    from hpo.commands.replay import matching_market
    from hpo.commands.stored_trial import open_named, read_trial
    from hpo.study.study_records import take_fresh_seeds, write_replication

    if arguments.seeds < FEWEST_SEEDS:
        raise ConfigError(
            "--seeds", f"a spread needs {FEWEST_SEEDS} seeds, but got {arguments.seeds}; raise it"
        )
    opened = open_named(arguments)
    stored = read_trial(opened, arguments.number)
    market = matching_market(stored, arguments.data)
    number = stored.trial.number
    folder = opened.directory.path / "replications"
    require_writable(arguments.out or folder)  # before seeds are taken
    taken = take_fresh_seeds(opened, number, arguments.seeds)
    config = stored.config.with_overrides({"training.seed": taken.first_seed, "training.seeds": taken.seeds})
    directory = arguments.out or folder / f"{number:04d}-{taken.first_seed}"
    last = taken.first_seed + taken.seeds - 1
    print(f"study {stored.study}, trial {number}: fresh seeds {taken.first_seed}..{last} in {directory}")
    score = train(config, market, directory)
    write_replication(opened.study, replace(taken, sharpe=tuple(sharpe for _, sharpe in score.per_seed)))
    trials = len(opened.study.get_trials(deepcopy=False))
    print("\n".join(["", *comparison(stored, score, trials)]))
    return 0


def train(config: TrainerConfig, market: MarketData, directory: Path) -> WalkForwardScore:
    """Trains all seeds as one stack and prints every epoch; a checkpoint there is not continued."""
    from hpo.commands.epoch_table import header, line
    from trainer.folds import split
    from trainer.training import run_training

    folds = len(split(len(market.bars), config.walk_forward).folds)

    def show(report: EpochReport) -> None:
        print(line(report, folds), flush=True)

    print(header(folds), flush=True)
    return run_training(config, market, directory, on_epoch=show).score


def comparison(stored: StoredTrial, score: WalkForwardScore, trials: int) -> list[str]:
    """The fresh seeds' mean and spread beside the trial's own record."""
    from hpo.study.attributes import read_score

    mean = mean_sharpe(score)
    lines = [f"seed {seed}: Sharpe {sharpe:.3f}" for seed, sharpe in score.per_seed]
    lines.append(
        f"{len(score.per_seed)} fresh seeds: Sharpe {mean:.3f} on average, standard deviation over seeds "
        f"{score.seed_spread:.3f}; standard error from the bars {score.standard_error:.3f}"
    )
    lines += [f"degenerate: {reason}" for reason in score.degenerate]
    original = read_score(stored.trial)
    if original is None:
        return [*lines, f"original: trial {stored.trial.number} has no score"]
    own = mean_sharpe(original)
    seeds = ", ".join(str(seed) for seed, _ in original.per_seed)
    lines.append(
        f"original: Sharpe {own:.3f} +- {original.standard_error:.3f} (seed {seeds}), "
        f"of a study of {plural(trials, 'trial')}; fresh seeds differ by {mean - own:+.3f}"
    )
    return lines if score.degenerate else [*lines, *_distance(original, score)]


def _distance(original: WalkForwardScore, fresh: WalkForwardScore) -> list[str]:
    """Says how unusual the difference of the two means is among seeds that are alike."""
    from trainer.statistics.seed_difference import seed_difference

    found = seed_difference(*([sharpe for _, sharpe in score.per_seed] for score in (original, fresh)))
    if found is None:
        return []
    place = "above" if found.difference > 0 else "below"
    return [
        f"the original lies {abs(found.statistic):.1f} standard errors {place} the fresh seeds' mean "
        f"(two-sample t, {found.freedom} degrees of freedom: p = {found.probability:.3f})"
    ]


def mean_sharpe(score: WalkForwardScore) -> float:
    """Mean over seeds of the annualised Sharpe ratio of all folds."""
    return sum(sharpe for _, sharpe in score.per_seed) / len(score.per_seed)


COMMAND = Command("replicate", "train a study's trial on fresh seeds: mean and spread", _add_arguments, _run)
