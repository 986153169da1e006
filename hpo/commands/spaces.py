"""foxtune spaces: lists the packaged search spaces, or shows one, a user's own included."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from hpo.commands.command import Command, Context

if TYPE_CHECKING:
    from trainer.config import Parameter, SearchSpace


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("space", nargs="?", help="a packaged space, or a .py or .toml file of your own")


def _run(arguments: Namespace, context: Context) -> int:
    from hpo.sampling.space_files import load_space

    packaged = context.packaged_spaces()
    if arguments.space is not None:
        print(describe_space(load_space(arguments.space, packaged)))
        return 0
    width = max(len(name) for name in packaged)
    for name, space in packaged.items():
        print(f"{name:{width}}  {len(space.parameters):2} parameters: {space.description}")
    print("\nshow one:     foxtune spaces iql_her\nyour own:     foxtune tune --space my_space.toml (or .py)")
    return 0


def describe_space(space: SearchSpace) -> str:
    """Returns one line per parameter: name, range, condition."""
    width = max(len(parameter.name) for parameter in space.parameters)
    lines = [f"{space.name}: {space.description}" if space.description else space.name]
    lines += [
        f"  {parameter.name:{width}}  {describe_parameter(parameter)}" for parameter in space.parameters
    ]
    return "\n".join(lines)


def describe_parameter(parameter: Parameter) -> str:
    """Returns the range or the choices, and the condition."""
    from trainer.config import Choice

    if isinstance(parameter, Choice):
        text = "{" + ", ".join(str(value) for value in parameter.values) + "}"
    else:
        text = f"[{parameter.low:g}, {parameter.high:g}]"
        text += f" step {parameter.step:g}" if parameter.step not in (None, 1) else ""
        text += " log" if parameter.log else ""
    if parameter.when is not None:
        when = parameter.when
        test = f"> {when.above:g}" if when.above is not None else f"= {when.equals}"
        text += f"  where {when.name} {test}"
    return text


COMMAND = Command("spaces", "list the search spaces, or show one", _add_arguments, _run)
