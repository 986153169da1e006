"""foxtune doctor: a table of what is installed, one verdict and one fix a line; the memory of a training."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from hpo.commands.command import Command, Context
from hpo.commands.config_flags import TRAINING_FLAGS, add_flags, effective_from

if TYPE_CHECKING:
    from trainer.compatibility import Finding


def _add_arguments(parser: ArgumentParser) -> None:
    add_flags(parser, TRAINING_FLAGS)
    parser.add_argument(
        "--memory", action="store_true", help="also list the GPU memory of a training with these flags"
    )


def _run(arguments: Namespace, context: Context) -> int:
    from hpo.machine import examine, verdict

    findings = examine()
    print(table(findings))
    text, usable = verdict(findings)
    print(f"\n{text}")
    if usable and (arguments.memory or arguments.profile or arguments.config):
        _print_memory(arguments)
    return 0 if usable else 1


def table(findings: list[Finding]) -> str:
    """Lays the findings out in columns: part, what was found, state, fix."""
    rows = [(each.part, each.found, each.state, each.fix) for each in findings]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ("  ".join((*(f"{a:{b}}" for a, b in zip(row, widths, strict=False)), row[3])) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _print_memory(arguments: Namespace) -> None:
    """The fused backend's buffers, unless the reference is asked for: on the CPU memory is seldom short."""
    from hpo.commands.training_plan import memory_lines
    from hpo.gpus.resources import visible_gpus
    from trainer.data.market import load_market

    config = effective_from(arguments, TRAINING_FLAGS).config.trainer
    market = load_market(config)
    reference = config.training.backend == "reference"
    gpus = visible_gpus()
    gpu = gpus[0] if gpus and not reference else None
    print(f"\n{memory_lines(config, market, 'reference' if reference else 'fused', gpu)}")


COMMAND = Command(
    "doctor",
    "look at Python, torch, CUDA, Ray and Optuna, and say what to fix; list a training's memory",
    _add_arguments,
    _run,
)
