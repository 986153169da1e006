"""load_bars: from ``data.path`` to validated bars, whatever the source."""

from __future__ import annotations

from trainer.config import DataConfig
from trainer.data.arch_source import INDEX_NAMES, load_index
from trainer.data.bars import Bars
from trainer.data.synthetic import is_synthetic
from trainer.errors import ConfigError

FILE_KEYS = ("tz", "timestamp_unit", "date_format", "delimiter", "decimal", "repair", "allow_jumps")


def is_named(path: str) -> bool:
    """Whether ``data.path`` is the name of a market rather than a file; a name wins over a file."""
    return path in INDEX_NAMES or is_synthetic(path)


def load_bars(config: DataConfig) -> Bars:
    """Loads ``sp500``, ``nasdaq``, or a CSV or Parquet file.

    Raises:
        ConfigError: Naming the key that has to change.
        DataError: Naming the column, the file line, the value and the fix.
    """
    if config.path in INDEX_NAMES:
        refuse_file_keys(config)
        return load_index(config.path, config.returns)
    from trainer.data.bar_file import load_file

    return load_file(config)


def refuse_file_keys(config: DataConfig) -> None:
    """Refuses keys that say how a file is read or mended, where the bars come from no file.

    Ignored, they would let the user believe that gaps were mended or a time zone was applied.

    Raises:
        ConfigError: Naming the first such key.
    """
    for key in FILE_KEYS:
        value = getattr(config, key)
        if value != DataConfig.model_fields[key].default:
            raise ConfigError(
                f"data.{key}",
                f"is about reading a file, but data.path is {config.path!r} and data.{key} is {value!r}; "
                "leave it out, or give a file",
            )
