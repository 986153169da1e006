"""foxtune export: a trial's newest models, scalers and configuration in one file for `foxtune signal`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from hpo.commands.command import Command, Context
from hpo.commands.out_file import writing_out
from hpo.commands.study_flags import add_study_arguments, add_trial_arguments


def _add_arguments(parser: ArgumentParser) -> None:
    add_study_arguments(parser)
    add_trial_arguments(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the file to write")


def _run(arguments: Namespace, context: Context) -> int:
    from hpo.commands.stored_policy import read_stored_policy
    from hpo.commands.stored_trial import open_named, read_trial
    from hpo.study.attributes import read_machine
    from hpo.study.study_records import now
    from trainer.policy_file import write_policy

    opened = open_named(arguments)
    stored = read_trial(opened, arguments.number)
    policy = read_stored_policy(opened, stored)
    machine = read_machine(stored.trial)
    origin: dict[str, str | int | float] = {
        "study": stored.study,
        "trial": stored.trial.number,
        "value": float(stored.trial.value or 0.0),
        "date": now(),
    }
    path: Path = arguments.out
    with writing_out(path):
        write_policy(path, policy, origin, dict(machine.versions) if machine is not None else {})
    seeds = ", ".join(str(member.seed) for member in policy.members)
    print(
        f"{path}: study {stored.study}, trial {stored.trial.number}, fold {policy.members[0].fold}, "
        f"seed {seeds}; use it with foxtune signal --model {path} --data NEW.csv"
    )
    return 0


COMMAND = Command("export", "write a trial's models and configuration as one file", _add_arguments, _run)
