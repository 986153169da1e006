"""The effective configuration: flags > --config FILE.toml > profile > defaults, and who set what.

A configuration file has the trainer's sections (``[data]``, ``[agent]`` ...) and the search's keys side by
side; ``SearchConfig`` nests the former under ``trainer``, which no user needs to know.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hpo.config import SearchConfig
from hpo.storage.postgres import hidden_password
from trainer.config import TrainerConfig, validated
from trainer.config.complaints import nearest_name
from trainer.errors import ConfigError

PROFILES = Path(__file__).parent / "profiles"
TRAINER = "trainer"


@dataclass(frozen=True)
class Assignment:
    """A value for one key and where it came from.

    Attributes:
        key: Dotted (``data.path``) or short (``path``).
        value: As read; the configuration's types convert and check it.
        origin: For the user: ``--data``, ``my.toml``, ``profile demo``.
    """

    key: str
    value: Any
    origin: str


@dataclass(frozen=True)
class Effective:
    """A configuration and the origin of every key that is not a default."""

    config: SearchConfig
    origins: Mapping[str, str]


def resolve(
    flags: list[Assignment],
    config_file: Path | None = None,
    profile: str | None = None,
    below: Sequence[Assignment] = (),
) -> Effective:
    """Lays the sources over each other, the strongest last.

    Args:
        flags: From the command line, in its order; a later one wins.
        config_file: A TOML file.
        profile: Name of a packaged profile.
        below: Stronger than the defaults only: the configuration of an earlier run.

    Raises:
        ConfigError: For an unknown key (naming the nearest), an illegal value, or an unreadable file.
    """
    assignments = list(below)
    if profile is not None:
        assignments += read_assignments(profile_path(profile), f"profile {profile}")
    if config_file is not None:
        assignments += read_assignments(config_file, config_file.name)
    assignments += flags
    nested: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for assignment in assignments:
        key = canonical(assignment.key, assignment.origin)
        _place(nested, key, assignment.value)
        origins[key] = assignment.origin
    try:
        config = validated(SearchConfig, nested)
    except ConfigError as error:
        raise _without_trainer_prefix(error) from None
    return Effective(config, origins)


def assignments_of(config: SearchConfig | TrainerConfig, origin: str) -> list[Assignment]:
    """Turns a whole configuration into assignments, one per key."""
    search = config if isinstance(config, SearchConfig) else SearchConfig(trainer=config)
    trainer_only = config is not search
    return [
        Assignment(key, _value(search, path), origin)
        for key, path in known_keys().items()
        if not trainer_only or path[0] == TRAINER
    ]


def known_keys() -> dict[str, tuple[str, ...]]:
    """Returns dotted key, as the user writes it -> path inside ``SearchConfig``, in order."""
    return dict(_leaves(SearchConfig, ()))


def canonical(name: str, origin: str) -> str:
    """Resolves a dotted or short name to the dotted key.

    Raises:
        ConfigError: For an unknown name, naming where it stands and the nearest known one.
    """
    keys = known_keys()
    if name in keys:
        return name
    if any(key.startswith(f"{name}.") for key in keys):
        inside = [key for key in keys if key.startswith(f"{name}.")]
        raise ConfigError(
            name, f"is a section, but {origin} gives it a value; set one of its keys, such as {inside[0]}"
        )
    short = [key for key in keys if key.rpartition(".")[2] == name]
    if len(short) == 1:
        return short[0]
    if len(short) > 1:
        raise ConfigError(name, f"could be any of {', '.join(short)}; write one of them (in {origin})")
    by_leaf = {key.rpartition(".")[2]: key for key in reversed(list(keys))}
    typed = name.casefold()
    near = difflib.get_close_matches(typed, keys, n=1, cutoff=0.7)
    nearest = near[0] if near else by_leaf[nearest_name(typed.rpartition(".")[2], list(by_leaf))]
    raise ConfigError(name, f"unknown key in {origin}; the nearest known one is {nearest}")


def profile_names() -> list[str]:
    """The packaged profiles."""
    return sorted(path.stem for path in PROFILES.glob("*.toml"))


def profile_path(name: str) -> Path:
    """The file of a packaged profile.

    Raises:
        ConfigError: For an unknown name.
    """
    if name not in profile_names():
        raise ConfigError("--profile", f"must be one of {', '.join(profile_names())}, but got {name!r}")
    return PROFILES / f"{name}.toml"


def read_assignments(path: Path, origin: str) -> list[Assignment]:
    """Reads a TOML file as one assignment per leaf.

    Raises:
        ConfigError: If the file is missing or not TOML.
    """
    return [Assignment(".".join(parts), value, origin) for parts, value in _flat(read_toml(path), ())]


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file given by the user.

    Raises:
        ConfigError: If the file is missing, not text or not TOML, with the line.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read ({error.strerror}); check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"is not valid TOML ({error}); mend the file") from None


def to_toml(effective: Effective) -> str:
    """Writes every key with its value and, as a comment, where the value came from.

    The text is a configuration file itself: read back, it gives the same configuration, but for a password in
    the storage, which is not shown. A key without
    a value stands as a comment, because TOML knows no null.
    """
    lines = ["# Effective configuration: flags > --config > profile > defaults"]
    section = ""
    for key, path in sorted(known_keys().items(), key=lambda item: "." in item[0]):
        here, _, leaf = key.rpartition(".")
        if here != section:
            section = here
            lines += ["", f"[{section}]"]
        value = _value(effective.config, path)
        if key == "storage" and value is not None:
            value = hidden_password(value)
        text = f"# {leaf} is not set" if value is None else f"{leaf} = {toml_value(value)}"
        lines.append(f"{text}  # {effective.origins.get(key, 'default')}")
    return "\n".join(lines) + "\n"


def toml_value(value: Any) -> str:
    """Writes a scalar or a list of scalars as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    printable = "".join(c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}" for c in escaped)
    return f'"{printable}"'


def _value(config: SearchConfig, path: tuple[str, ...]) -> Any:
    value: Any = config
    for part in path:
        value = getattr(value, part)
    return value


def _place(nested: dict[str, Any], key: str, value: Any) -> None:
    *sections, leaf = known_keys()[key]
    for section in sections:
        nested = nested.setdefault(section, {})
    nested[leaf] = value


def _leaves(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, field in model.model_fields.items():
        here = (*path, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _leaves(field.annotation, here)
        else:
            yield ".".join(here[1:] if here[0] == TRAINER else here), here


def _flat(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and (value or _is_section((*path, name))):
            yield from _flat(value, (*path, name))
        else:
            yield (*path, name), value


def _is_section(path: tuple[str, ...]) -> bool:
    return any(key.startswith(f"{'.'.join(path)}.") for key in known_keys())


def _without_trainer_prefix(error: ConfigError) -> ConfigError:
    prefix = f"{TRAINER}."
    key = error.key.removeprefix(prefix)
    return ConfigError(key, str(error).removeprefix(f"{error.key}: "))
