"""Searches on two GPUs and on one, beside trials as scripts run them: rates, gaps, GPU memory.

``python -m hpo.benchmarks.gpu_search`` runs, each in processes of its own:

- one trial, so that the kernels are compiled and on disk, as from a machine's second search on;
- a search on two GPUs, two trials at a time, and one on the first GPU alone, in the way of ``foxtune tune``;
- the usual way: a fresh process per trial on the first GPU, plain PyTorch, one member after another, eager,
  because to compile the loss would take longer than so short a trial.

Every trial does the same work: equal folds, seeds, epochs, updates, lanes and evaluation bars; no trial is
stopped early. This process itself makes no CUDA context before the last reading of the memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial

from hpo.benchmarks.memory_watch import MemoryWatch
from hpo.benchmarks.search_figures import (
    SearchFigures,
    figures_of_processes,
    figures_of_search,
    ratios,
    table,
)
from hpo.config import SearchConfig
from hpo.gpus.nvml import Nvml, find_nvml
from hpo.gpus.resources import VISIBLE, Gpu, visible_gpus
from hpo.study.attributes import SETUP_SECONDS
from trainer.benchmarks import machine
from trainer.config import TrainerConfig, validated
from trainer.errors import ConfigError
from trainer.wording import plural

LONGEST_SECONDS = 400  # of a process; nothing here may take the machine for longer
LONGEST_MESSAGE = 3000  # characters of a failed process's output
HER_RATIO = 0.4  # of the usual way: the mean of what the search draws
TWO, ONE, USUAL = "two GPUs", "one GPU", "the usual way, one GPU"


@dataclass(frozen=True)
class Plan:
    """How much is run.

    Attributes:
        trainer: What every trial trains, but for the searched scalars.
        gpus: GPUs per trial; 0 trains on the CPU.
        trials: Of the search on two GPUs.
        trials_on_one: Of the search on one.
        processes: Trials of the usual way; 0 leaves it out.
    """

    trainer: TrainerConfig
    gpus: int = 1
    trials: int = 40
    trials_on_one: int = 40
    processes: int = 6


def search_config(plan: Plan, runs: Path, study: str, trials: int, concurrent: int) -> SearchConfig:
    """The search of a column: random parameters, no early stopping."""
    return validated(
        SearchConfig,
        {
            "study": study,
            "runs": str(runs),
            "trials": trials,
            "concurrent": concurrent,
            "sampler": "random",
            "stopping": {"pruner": "none"},
            "resources": {"gpu": plan.gpus},
            "trainer": plan.trainer.model_dump(),
        },
    )


def run_search(search: SearchConfig, visible: str | None = None) -> list[FrozenTrial]:
    """Runs a search in a process of its own and reads its study.

    Args:
        search: Whose study is kept in its own folder.
        visible: ``CUDA_VISIBLE_DEVICES`` of that process; None leaves it as it is.

    Raises:
        RuntimeError: With the end of its output, if it fails.
    """
    _output("hpo.benchmarks.search_run", search.model_dump_json(), visible)
    url = f"sqlite:///{Path(search.runs) / search.study / 'study.db'}"
    return optuna.load_study(study_name=search.study, storage=url).get_trials(deepcopy=False)


def run_processes(config: TrainerConfig, count: int, visible: str | None) -> list[tuple[float, float]]:
    """Trains ``count`` times the usual way; returns (wall, training) seconds of each process.

    Raises:
        RuntimeError: With the end of its output, if one fails.
    """
    took = []
    for seed in range(count):
        words = config.with_overrides({"seed": seed}).model_dump_json()
        started = time.perf_counter()
        told = _output("trainer.benchmarks.peer_torch_process", words, visible)
        took.append((time.perf_counter() - started, float(json.loads(told.splitlines()[-1])["seconds"])))
        _say(f"{USUAL}: trial {seed}, {took[-1][0]:.1f} s, {took[-1][1]:.1f} of them training")
    return took


def measure(plan: Plan, runs: Path, gpus: Sequence[Gpu], nvml: Nvml | None) -> tuple[SearchFigures, ...]:
    """Runs everything; returns the columns (two GPUs, one and, unless left out, the usual way).

    Args:
        plan: How much.
        runs: An empty folder.
        gpus: Two of them, or none where the plan trains on the CPU.
        nvml: The driver's library, None without one.
    """
    uuids = tuple(gpu.uuid for gpu in gpus)
    both, first = (",".join(uuids), uuids[0]) if uuids else (None, None)
    (warm_up,) = run_search(search_config(plan, runs, "compile", 1, 1), first)
    _say(f"kernels compiled: {warm_up.user_attrs[SETUP_SECONDS]:.1f} s of set-up in a machine's first trial")
    columns = []
    for name, study, trials, concurrent, visible in (
        (TWO, "two", plan.trials, 2, both),
        (ONE, "one", plan.trials_on_one, 1, first),
    ):
        search = search_config(plan, runs, study, trials, concurrent)
        with MemoryWatch(uuids, nvml) as memory:
            done = run_search(search, visible)
        columns.append(figures_of_search(name, done, memory))
        _say(f"{name}: {columns[-1]}")
    if not plan.processes:
        return tuple(columns)
    with MemoryWatch(uuids, nvml) as memory:
        took = run_processes(plan.trainer, plan.processes, first)
    walls, trained = [wall for wall, _ in took], [work for _, work in took]
    columns.append(figures_of_processes(USUAL, first or "none", walls, trained, memory))
    return tuple(columns)


def report(plan: Plan, columns: Sequence[SearchFigures]) -> str:
    """Markdown: the size of a trial, the table, the rates compared."""
    training, folds = plan.trainer.training, plan.trainer.walk_forward.folds
    size = (
        f"Every trial: {plural(folds, 'fold')} x {plural(training.seeds, 'seed')}, "
        f"{plural(training.epochs, 'epoch')} of {training.updates} gradient steps at batch "
        f"{plan.trainer.agent.batch_size}, default networks, "
        f"`{plan.trainer.data.path}`."
    )
    usual = (
        " The usual way is eager PyTorch, a fresh process per trial, one member after another; its gap is "
        "the start of that process, imports and CUDA included."
    )
    return "\n\n".join((size + usual * bool(plan.processes), table(columns), ratios(*columns)))


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints Markdown; progress goes to stderr."""
    arguments = _parser().parse_args(argv)
    plan = Plan(
        trainer_config(arguments),
        arguments.gpus_per_trial,
        arguments.trials,
        arguments.trials_on_one,
        arguments.processes,
    )
    gpus = visible_gpus()[:2] if plan.gpus else ()
    if plan.gpus and len(gpus) < 2:
        raise ConfigError(
            "resources.gpu",
            f"{plural(len(gpus), 'GPU')} visible, but this compares two with one; "
            "make two visible, or use --backend reference --gpus-per-trial 0",
        )
    with tempfile.TemporaryDirectory(prefix="foxtune-gpu-search-") as runs:
        columns = measure(plan, Path(runs), gpus, find_nvml() if gpus else None)
    sys.stdout.write(f"{machine.describe()}\n\n{report(plan, columns)}\n")


def trainer_config(arguments: argparse.Namespace) -> TrainerConfig:
    """The training that the flags describe."""
    return TrainerConfig().with_overrides(
        {
            "data.path": arguments.data,
            "folds": arguments.folds,
            "seeds": arguments.seeds,
            "epochs": arguments.epochs,
            "updates": arguments.updates,
            "batch_size": arguments.batch_size,
            "backend": arguments.backend,
            "her_ratio": HER_RATIO,
        }
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hpo.benchmarks.gpu_search", description=main.__doc__)
    parser.add_argument("--trials", type=int, default=40, help="of the search on two GPUs")
    parser.add_argument("--trials-on-one", type=int, default=40, help="of the search on one GPU")
    parser.add_argument("--processes", type=int, default=6, help="trials of the usual way; 0: none")
    parser.add_argument("--data", default="synthetic:known_answer:2000:1")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--updates", type=int, default=32, help="gradient steps of an epoch")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--backend", choices=("fused", "reference"), default="fused")
    parser.add_argument("--gpus-per-trial", type=int, choices=(0, 1), default=1)
    return parser


def _output(module: str, words: str, visible: str | None) -> str:
    """Runs a module with one word on its command line; returns what it prints."""
    environment = dict(os.environ) if visible is None else {**os.environ, VISIBLE: visible}
    done = subprocess.run(
        [sys.executable, "-m", module, words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
        env=environment,
        cwd=machine.ROOT,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{module} ended with {done.returncode}:\n{done.stdout[-LONGEST_MESSAGE:]}")
    return done.stdout


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
