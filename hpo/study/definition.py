"""What makes the values of a study comparable: direction, objective, data, fixed configuration, space.

It is stored with the study, and compared with what a command asks for before any work.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from hpo.config import SearchConfig
from trainer.config import Choice, Float, Int, Parameter, SearchSpace, When, known_names, locate
from trainer.errors import ConfigError

DIRECTION: Final = "maximize"
# Keys that decide where and how fast a training runs, or what is told of it, but not what is measured.
RUNTIME_KEYS = {
    "data.path",
    "training.backend",
    "training.device",
    "training.threads",
    "training.check_finite",
    "training.cuda_graph",
    "training.steps_per_replay",
    "training.checkpoint_seconds",
}
KINDS: dict[str, type[Parameter]] = {"float": Float, "int": Int, "choice": Choice}


@dataclass(frozen=True)
class Difference:
    """One line of the table that refuses a study."""

    parameter: str
    old: str
    new: str


@dataclass(frozen=True)
class StudyDefinition:
    """The part of a search that its trials' values depend on.

    Attributes:
        direction: ``maximize``.
        data_hash: Of the bars.
        fixed: (dotted key, value as JSON) of the trainer's configuration, searched and runtime keys left out.
        space: The search space.
    """

    direction: str
    data_hash: str
    fixed: tuple[tuple[str, str], ...]
    space: SearchSpace

    @classmethod
    def of(cls, search: SearchConfig, space: SearchSpace, data_hash: str) -> StudyDefinition:
        """Takes the definition out of a search."""
        searched = {".".join(locate(parameter.name)) for parameter in space.parameters}
        values = search.trainer.model_dump(mode="json")
        fixed = tuple(
            (f"{section}.{key}", json.dumps(values[section][key]))
            for section, key in sorted(known_names().values())
            if f"{section}.{key}" not in searched | RUNTIME_KEYS
        )
        return cls(DIRECTION, data_hash, fixed, space)

    def to_json(self) -> str:
        """Writes the definition as JSON."""
        return json.dumps(
            {
                "direction": self.direction,
                "data_hash": self.data_hash,
                "fixed": dict(self.fixed),
                "space": space_to_plain(self.space),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> StudyDefinition:
        """Reads what :meth:`to_json` wrote.

        Raises:
            ConfigError: If it has another form.
        """
        try:
            plain = json.loads(text)
            return cls(
                direction=plain["direction"],
                data_hash=plain["data_hash"],
                fixed=tuple(sorted(plain["fixed"].items())),
                space=space_from_plain(plain["space"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                "study",
                f"its stored definition has another form ({type(error).__name__}: {error}); use the version "
                "of foxtune that made the study, or --study NEW",
            ) from None


def differences(old: StudyDefinition, new: StudyDefinition) -> tuple[Difference, ...]:
    """Lists everything in which two definitions differ, the measure first, the space last."""
    return (*measure_differences(old, new), *_space_differences(old.space, new.space))


def measure_differences(old: StudyDefinition, new: StudyDefinition) -> tuple[Difference, ...]:
    """Differences that make the values of the two studies incomparable, whatever their parameters.

    A key that one of them searches and the other fixes is a difference of the spaces, not of the measure.
    """
    found = []
    if old.direction != new.direction:
        found.append(Difference("direction", old.direction, new.direction))
    if old.data_hash != new.data_hash:
        found.append(Difference("data hash", old.data_hash[:12], new.data_hash[:12]))
    before, after = dict(old.fixed), dict(new.fixed)
    found += [
        Difference(key, before[key], after[key])
        for key in sorted(before.keys() & after.keys())
        if before[key] != after[key]
    ]
    return tuple(found)


def difference_table(found: tuple[Difference, ...]) -> str:
    """Lays the differences out in three columns, one line each."""
    rows = [("parameter", "old", "new"), *((each.parameter, each.old, each.new) for each in found)]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"  {a:<{first}}  {b:<{second}}  {c}".rstrip() for a, b, c in rows)


def require_same(study: str, old: StudyDefinition, new: StudyDefinition) -> None:
    """Refuses to go on with a study under another definition.

    Raises:
        ConfigError: With a table of what differs.
    """
    found = differences(old, new)
    if found:
        raise ConfigError(
            "study",
            f"study {study!r} was made with another definition; give a new name with --study NEW, "
            f"and --fork {study} with it to copy the comparable trials\n{difference_table(found)}",
        )


def space_to_plain(space: SearchSpace) -> dict[str, Any]:
    """Writes a space as plain values."""
    parameters = [{"kind": _kind(parameter), **asdict(parameter)} for parameter in space.parameters]
    return {"name": space.name, "description": space.description, "parameters": parameters}


def space_from_plain(plain: dict[str, Any]) -> SearchSpace:
    """Reads what :func:`space_to_plain` wrote, also after a turn through JSON."""
    return SearchSpace(
        name=plain["name"],
        description=plain["description"],
        parameters=tuple(_parameter(each) for each in plain["parameters"]),
    )


def _parameter(plain: dict[str, Any]) -> Parameter:
    fields = {key: value for key, value in plain.items() if key != "kind"}
    if fields["when"] is not None:
        fields["when"] = When(**fields["when"])
    if plain["kind"] == "choice":
        fields["values"] = tuple(fields["values"])
    return KINDS[plain["kind"]](**fields)


def _kind(parameter: Parameter) -> str:
    return next(name for name, kind in KINDS.items() if isinstance(parameter, kind))


def _space_differences(old: SearchSpace, new: SearchSpace) -> Iterator[Difference]:
    before = {parameter.name: _describe(parameter) for parameter in old.parameters}
    after = {parameter.name: _describe(parameter) for parameter in new.parameters}
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield Difference(name, before.get(name, "not searched"), after.get(name, "not searched"))


def _describe(parameter: Parameter) -> str:
    if isinstance(parameter, Choice):
        text = "{" + ", ".join(json.dumps(value) for value in parameter.values) + "}"
    else:
        text = f"{_kind(parameter)} [{parameter.low!r}, {parameter.high!r}]"
        text += f" step {parameter.step!r}" if parameter.step not in (None, 1) else ""
        text += " log" if parameter.log else ""
    when = parameter.when
    if when is None:
        return text
    rule = f"> {when.above:g}" if when.above is not None else f"= {when.equals!r}"
    return f"{text} where {when.name} {rule}"
