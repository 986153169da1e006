"""The flags that set configuration keys, declared once and shared by the commands that train or search."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.errors import ConfigError

if TYPE_CHECKING:
    from hpo.effective_config import Assignment, Effective


@dataclass(frozen=True)
class Flag:
    """A short flag for configuration keys, whose types check the value.

    Attributes:
        option: As typed.
        keys: The dotted keys that it sets, most often one.
        metavar: What stands for the value in --help.
        help: One line for --help.
        constant: The value of a flag that takes none.
    """

    option: str
    keys: tuple[str, ...]
    metavar: str
    help: str
    constant: str | None = None


TRAINING_FLAGS = (
    Flag("--data", ("data.path",), "sp500|nasdaq|PATH", "bars: a packaged market, a CSV or a Parquet file"),
    Flag("--folds", ("walk_forward.folds",), "N", "walk-forward folds"),
    Flag("--seeds", ("training.seeds",), "N", "stacked trainings per fold"),
    Flag("--epochs", ("training.epochs",), "N", "epochs of collect, learn, evaluate"),
    Flag("--seed", ("training.seed", "seed"), "N", "first seed of the trainings, and of the search"),
    Flag("--backend", ("training.backend",), "NAME", "which implementation trains: auto, reference or fused"),
    Flag("--gpus-per-trial", ("resources.gpu",), "N", "GPUs of one training; 0: the reference on the CPU"),
)
DEBUGGING_FLAGS = (
    Flag(
        "--check-finite",
        ("training.check_finite",),
        "",
        "fail at the first step that is not finite, naming its first bad output",
        "true",
    ),
    Flag(
        "--no-graph",
        ("training.cuda_graph",),
        "",
        "launch every CUDA kernel by itself, for debuggers and profilers",
        "false",
    ),
)
SEARCH_FLAGS = (
    Flag("--space", ("space",), "NAME|FILE", "search space: a packaged one, a .py or a .toml file"),
    Flag("--trials", ("trials",), "N", "finished trials of the study in the end"),
    Flag("--concurrent", ("concurrent",), "N", "trials at a time"),
    Flag("--study", ("study",), "NAME", "name of the study and of its folder below --runs"),
    Flag("--runs", ("runs",), "DIR", "folder of the studies (default: runs)"),
    Flag("--storage", ("storage",), "URL", "Optuna storage: a database URL or journal:FILE"),
    Flag("--address", ("ray.address",), "auto|HOST:PORT", "join a running Ray cluster; auto: this machine's"),
    Flag(
        "--time-budget",
        ("time_budget",),
        "TIME",
        "stop asking for trials after this time: 90s, 30m, 2h or 1h30m; a plain number is seconds",
    ),
)


def add_flags(parser: ArgumentParser, flags: tuple[Flag, ...]) -> None:
    """Declares ``flags``, ``--set``, ``--config`` and ``--profile``."""
    group = parser.add_argument_group("configuration (flags > --config > profile > defaults)")
    for flag in flags:
        if flag.constant is None:
            group.add_argument(flag.option, dest=_destination(flag), metavar=flag.metavar, help=flag.help)
        else:
            group.add_argument(
                flag.option,
                dest=_destination(flag),
                action="store_const",
                const=flag.constant,
                help=flag.help,
            )
    group.add_argument("--config", type=Path, metavar="FILE.toml", help="a configuration file")
    group.add_argument("--profile", metavar="NAME", help="a packaged configuration: demo, laptop")
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="any key of `foxtune config`; may be repeated; an empty VALUE unsets the key",
    )


def effective_from(arguments: Namespace, flags: tuple[Flag, ...]) -> Effective:
    """Resolves the flags of a command line.

    Raises:
        ConfigError: For an unknown key or an illegal value.
    """
    from hpo.effective_config import resolve

    return resolve(assignments(arguments, flags), arguments.config, arguments.profile)


def assignments(arguments: Namespace, flags: tuple[Flag, ...]) -> list[Assignment]:
    """The configuration keys that the command line sets: short flags first, then ``--set``.

    Raises:
        ConfigError: For a ``--set`` without ``=``.
    """
    from hpo.effective_config import Assignment

    found: list[Assignment] = []
    for flag in flags:
        value = getattr(arguments, _destination(flag))
        if value is not None:
            found += [Assignment(key, parse_value(key, value), flag.option) for key in flag.keys]
    for text in arguments.set:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError("--set", f"must have the form section.key=value, but got {text!r}")
        # A value of white space alone is one: data.delimiter may be a tab.
        found.append(Assignment(key.strip(), parse_value(key.strip(), value.strip() or value), "--set"))
    return found


def parse_value(key: str, text: str) -> Any:
    """Reads one value: nothing is None, a TOML list is a tuple, anything else the text.

    Quotes around a text are TOML's, as error messages print them. Numbers, durations and truth values stay
    text; the key's own type reads them, and complains in its own words.

    Raises:
        ConfigError: For a list or a quoted text that TOML cannot read.
    """
    import tomllib

    if text == "":
        return None
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        try:
            text = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            raise ConfigError(key, f"must be one text in quotes, or without any, but got {text}") from None
        return text
    if text.startswith("["):
        try:
            return tuple(tomllib.loads(f"value = {text}")["value"])
        except tomllib.TOMLDecodeError:
            raise ConfigError(key, f"must be a list like [1, 2], but got {text!r}") from None
    return text


def _destination(flag: Flag) -> str:
    return "flag_" + flag.option.lstrip("-").replace("-", "_")
