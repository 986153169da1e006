"""foxtune bench: measures the trainer on this machine and prints Markdown tables."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hpo.commands.command import Command, Context


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--peers",
        action="store_true",
        help="also measure the same gradient step in JAX and in compiled PyTorch, where installed, and the "
        "same trial in plain PyTorch",
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        help="one table: reference, step, parts, market, collector, kernels or trial",
    )


def _run(arguments: Namespace, context: Context) -> int:
    from trainer.benchmarks.sections import sections

    for number, section in enumerate(sections(peers=arguments.peers, only=arguments.only)):
        print(section if number == 0 else f"\n{section}", flush=True)
    return 0


COMMAND = Command("bench", "measure the trainer on this machine and print tables", _add_arguments, _run)
