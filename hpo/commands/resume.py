"""foxtune resume: goes on with a search that was stopped, whatever stopped it, or asks for more trials."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hpo.commands.command import Command, Context
from hpo.commands.config_flags import SEARCH_FLAGS, TRAINING_FLAGS, add_flags, assignments
from hpo.commands.output import Output, add_output_arguments, chosen_output
from hpo.commands.study_flags import add_study_arguments, study_name
from trainer.errors import ConfigError

NAMED_BY_STUDY = ("--study", "--runs", "--storage")
FLAGS = (*TRAINING_FLAGS, *(flag for flag in SEARCH_FLAGS if flag.option not in NAMED_BY_STUDY))


def _add_arguments(parser: ArgumentParser) -> None:
    add_study_arguments(parser)
    add_flags(parser, FLAGS)
    add_output_arguments(parser)


def _run(arguments: Namespace, context: Context) -> int:
    with chosen_output(arguments) as output:
        return _search(arguments, context, output)


def _search(arguments: Namespace, context: Context, output: Output) -> int:
    from hpo.commands.search_flow import close_search
    from hpo.effective_config import Assignment, assignments_of, resolve
    from hpo.sampling.space_files import load_space
    from hpo.tuner import resume, saved_search

    name = study_name(arguments)
    flags = assignments(arguments, FLAGS)
    if arguments.storage is not None:
        flags.append(Assignment("storage", arguments.storage, "--storage"))
    found = saved_search(arguments.runs, name, arguments.storage)
    if found.study != name:
        raise ConfigError(
            "study",
            f"folder {name!r} below {arguments.runs} holds study {found.study!r}; "
            "name the folder after its study",
        )
    saved = assignments_of(found, f"study {name}")
    config = resolve(flags, arguments.config, arguments.profile, below=saved).config
    space = None
    if any(assignment.key == "space" for assignment in flags):
        space = load_space(config.space, context.packaged_spaces())
    outcome = resume(config, space, say=print, display=output.display)
    return close_search(outcome, output.summary)


COMMAND = Command("resume", "go on with a stopped search, or ask for more trials", _add_arguments, _run)
