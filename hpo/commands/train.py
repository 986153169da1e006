"""foxtune train: one trial in this process. No Ray, so that breakpoints and ctrl-C work as in any script."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from hpo.commands.command import Command, Context
from hpo.commands.config_flags import DEBUGGING_FLAGS, TRAINING_FLAGS, add_flags, assignments
from hpo.commands.train_directory import RECORD, ending_early, require_writable, run_directory, write_record
from trainer.errors import ConfigError
from trainer.wording import plural

if TYPE_CHECKING:
    from hpo.effective_config import Assignment, Effective
    from hpo.gpus.resources import Gpu
    from trainer.backend import Backend
    from trainer.config import TrainerConfig
    from trainer.data.market_data import MarketData

FLAGS = (*TRAINING_FLAGS, *DEBUGGING_FLAGS)
RUNS = Path("runs") / "train"


def _add_arguments(parser: ArgumentParser) -> None:
    add_flags(parser, FLAGS)
    group = parser.add_argument_group("this training")
    group.add_argument(
        "--out", type=Path, metavar="DIR", help=f"run directory (default: a new one in {RUNS}/)"
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="continue the training in --out, else the newest one, bit for bit",
    )
    group.add_argument("--from-study", metavar="STUDY", help="take the configuration of a study's trial")
    group.add_argument(
        "--number", type=int, metavar="N", help="which trial of --from-study (default: the best)"
    )
    group.add_argument(
        "--storage", metavar="URL", help="where --from-study lies, if not in the default storage"
    )
    group.add_argument("--runs", default="runs", metavar="DIR", help="folder of the studies (default: runs)")
    group.add_argument("--inline", action="store_true", help="accepted for scripts; train is always inline")
    group.add_argument(
        "--dry-run", action="store_true", help="print members, shapes and bytes; train nothing"
    )


def _run(arguments: Namespace, context: Context) -> int:
    directory = run_directory(arguments.out, arguments.resume, RUNS)
    effective = effective_configuration(arguments, directory)

    from hpo.gpus.gpu_request import device_line, settle_device
    from hpo.gpus.resources import visible_gpus

    gpus = visible_gpus()
    config = settle_device(effective.config, effective.origins, gpus)
    print(device_line(config, gpus), flush=True)

    from hpo.advice import configuration_advice, epoch_advice
    from hpo.commands.epoch_table import closing, header, line
    from trainer.backend import resolve_backend
    from trainer.data.market import load_market
    from trainer.reports import EpochReport
    from trainer.training import run_training

    market = load_market(config)
    folds, leak_warnings = _guarded_folds(config, market)
    backend = resolve_backend(config)
    if gpus:  # without one the device line has said it all
        print(backend.note)
    if arguments.dry_run:
        _print_plan(config, market, backend, gpus)
        return 0
    require_writable(directory)
    if not arguments.resume:
        write_record(directory, effective)
    bars = f"{plural(len(market.bars), 'bar')}, {market.periods_per_year:.2f} a year"
    print(f"{market.name}: {bars}, {plural(folds, 'fold')}")
    odd = [f"warning: {each}" for each in (*market.bars.findings.warnings, *leak_warnings)]
    advice = (*configuration_advice(config), *odd)
    print("\n".join([f"run directory {directory}", *advice, header(folds)]), flush=True)

    def show(report: EpochReport) -> None:
        if arguments.resume:  # only now is it known that the checkpoint accepts this configuration
            write_record(directory, effective)
        print("\n".join([line(report, folds), *epoch_advice(report)]), flush=True)

    with ending_early(directory, resumed=arguments.resume):
        result = run_training(
            config, market, directory, on_epoch=show, resume=arguments.resume, keep_checkpoint=True
        )
    print(f"\n{closing(result.score)}")
    print(f"longer:  foxtune train --resume --out {directory} --epochs {config.training.epochs + 2}")
    return 0


def _guarded_folds(config: TrainerConfig, market: MarketData) -> tuple[int, tuple[str, ...]]:
    """Returns the number of folds and the warnings of the leak guards."""
    from trainer.folds import require_min_folds, split
    from trainer.leaks.guards import require_no_leak

    parts = split(len(market.bars), config.walk_forward)
    require_min_folds(parts, config.walk_forward)
    return len(parts.folds), require_no_leak(market, parts, config)


def _print_plan(config: TrainerConfig, market: MarketData, backend: Backend, gpus: tuple[Gpu, ...]) -> None:
    from hpo.commands.training_plan import memory_lines, plan

    print(plan(config, market))
    gpu = gpus[0] if gpus and backend.device.type == "cuda" else None
    print(memory_lines(config, market, backend.name, gpu))


def effective_configuration(arguments: Namespace, directory: Path) -> Effective:
    """Resolves the configuration; under --resume the run's own record lies below the flags.

    Raises:
        ConfigError: For an unknown key, an illegal value, or flags that exclude each other.
    """
    from hpo.effective_config import assignments_of, read_assignments, resolve

    flags = assignments(arguments, FLAGS)
    _refuse_search_keys(flags)
    below: list[Assignment] = []
    if arguments.number is not None and arguments.from_study is None:
        raise ConfigError("--number", f"needs --from-study, but got only --number {arguments.number}")
    if arguments.resume:
        below = read_assignments(directory / RECORD, str(directory / RECORD))
    elif arguments.from_study is not None:
        from hpo.commands.stored_trial import read_trial
        from hpo.study.studies import open_existing
        from hpo.tuner import study_url

        url = study_url(arguments.runs, arguments.from_study, arguments.storage)
        stored = read_trial(open_existing(url, arguments.from_study, arguments.runs), arguments.number)
        below = assignments_of(stored.config, f"study {stored.study}, trial {stored.trial.number}")
    return resolve(flags, arguments.config, arguments.profile, below)


def _refuse_search_keys(flags: list[Assignment]) -> None:
    """Refuses keys that would change nothing, such as seed, where training.seed is meant."""
    from hpo.effective_config import TRAINER, canonical, known_keys

    for each in flags:
        key = canonical(each.key, each.origin)
        if each.origin == "--set" and known_keys()[key][0] not in (TRAINER, "resources"):
            inner = f"training.{key}"
            fix = f"set {inner}" if inner in known_keys() else "leave it out"
            raise ConfigError(
                key, f"decides a search, which train is not, but got --set {each.key}={each.value}; {fix}"
            )


COMMAND = Command("train", "train one configuration in this process, without Ray", _add_arguments, _run)
