"""foxtune clean: says what a study holds, and frees what nobody needs any more."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from hpo.commands.command import Command, Context
from hpo.commands.study_flags import add_study_arguments
from trainer.errors import ConfigError
from trainer.wording import plural

if TYPE_CHECKING:
    from hpo.study.studies import OpenStudy


def _add_arguments(parser: ArgumentParser) -> None:
    add_study_arguments(parser)
    parser.add_argument("--logs", action="store_true", help="also the logs of trials that have ended")
    parser.add_argument(
        "--weights", action="store_true", help="also the weights of all trials that have ended but the best"
    )
    parser.add_argument(
        "--all", action="store_true", help="the whole study, its trials in the storage too; asks for its name"
    )
    parser.add_argument("--yes", action="store_true", help="free without asking (not with --all)")


def _run(arguments: Namespace, context: Context) -> int:
    from hpo.commands.stored_trial import open_named
    from hpo.study.attributes import best_trial
    from hpo.study.studies import FINISHED
    from hpo.study.study_files import files_of, size_text, table_of, to_free

    opened = open_named(arguments)
    name = opened.study.study_name
    live = opened.reconciliation.live_driver
    if live is not None:
        raise ConfigError("study", f"study {name!r} is being run by {live}; wait for it or stop it first")
    with opened.directory.driving(name):
        trials = opened.study.get_trials(deepcopy=False)
        ended = {trial.number for trial in trials if trial.state in FINISHED}
        best = best_trial(trials)
        files = files_of(opened.directory)
        freed = to_free(
            files,
            ended,
            None if best is None else best.number,
            logs=arguments.logs,
            weights=arguments.weights,
        )
        print(f"study {name} in {opened.directory.path}\n\n{table_of(files, freed)}\n", flush=True)
        if arguments.all:
            return _delete_all(opened)
        if not freed:
            print("nothing to free")
            return 0
        if not arguments.yes and _answer(f"free {size_text(freed)}? [y/N] ").lower() not in ("y", "yes"):
            print("nothing was deleted")
            return 1
        for file in freed:
            file.path.unlink(missing_ok=True)
        print(f"freed {size_text(freed)}")
    return 0


def _delete_all(opened: OpenStudy) -> int:
    import shutil

    import optuna

    name, path = opened.study.study_name, opened.directory.path
    if _answer(f"type the study's name to delete all of it, its {_trials(opened)} included: ") != name:
        print("nothing was deleted")
        return 1
    optuna.delete_study(study_name=name, storage=opened.storage)
    shutil.rmtree(path.resolve())  # the folder may be a link to another disk
    path.unlink(missing_ok=True)
    print(f"deleted study {name}")
    return 0


def _trials(opened: OpenStudy) -> str:
    return plural(len(opened.study.get_trials(deepcopy=False)), "trial")


def _answer(question: str) -> str:
    try:
        return input(question).strip()
    except EOFError:  # nobody is there to answer
        print()
        return ""


COMMAND = Command("clean", "say what a study holds, and free what is not needed", _add_arguments, _run)
