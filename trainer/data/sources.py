"""load_bars: from ``data.path`` to validated bars, whatever the source."""

from __future__ import annotations

from trainer.config import DataConfig
from trainer.data.arch_source import load_index
from trainer.data.bars import Bars


def load_bars(config: DataConfig) -> Bars:
    """Loads ``sp500``, ``nasdaq``, or a CSV or Parquet file.

    Raises:
        ConfigError: Naming the key that has to change.
        DataError: Naming the column, the file line, the value and the fix.
    """
    if config.path == "sp500":
        return load_index("sp500", config.returns)
    if config.path == "nasdaq":
        return load_index("nasdaq", config.returns)
    from trainer.data.bar_file import load_file

    return load_file(config)
