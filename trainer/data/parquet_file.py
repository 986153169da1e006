"""Parquet files: columns of any type, rows numbered from 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trainer.config import DataConfig
from trainer.data.columns import assign_roles
from trainer.data.raw_table import RawTable
from trainer.errors import ConfigError, DataError

MAGIC = b"PAR1"


def read_parquet(path: Path, config: DataConfig) -> RawTable:
    """Reads all columns; a pandas index is a column like any other.

    Raises:
        ConfigError: For a file that is torn or no Parquet.
        DataError: For a file without rows.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            "data.path", f"{path} is no readable Parquet file ({reason}); write it again"
        ) from None
    if table.num_rows == 0:
        raise DataError(f"{path}: there are columns but no rows; add bars")
    columns = [
        _plain(path, name, column) for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    roles = assign_roles(table.column_names, str(path), None)
    columns, notes = _same_width(columns, (roles.open, roles.high, roles.low, roles.close))
    return RawTable(
        source=str(path),
        names=tuple(table.column_names),
        columns=tuple(columns),
        line=np.arange(1, table.num_rows + 1, dtype=np.int64),
        place="row",
        dialect="Parquet",
        roles=roles,
        decimal=config.decimal,
        notes=notes,
    )


def _plain(path: Path, name: str, column: Any) -> Any:
    """Undoes dictionaries, and reads bytes and views of text as text."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(path, name, column.cast(kind.value_type))
    if pa.types.is_string_view(kind):
        return column.cast(pa.string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        try:
            return column.cast(pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            raise DataError(f"{path}: column {name} holds bytes that are no text; store it as text") from None
    return column


def _same_width(columns: list[Any], prices: tuple[int, ...]) -> tuple[list[Any], tuple[str, ...]]:
    """Rounds all prices to the narrowest floating type among them, if they differ.

    A high stored in 32 bits can lie below the close of the same bar stored in 64. Rounding never turns an
    order round, so that in one width the range encloses the body again.
    """
    import pyarrow as pa

    kinds = [columns[index].type for index in prices]
    floating = [kind for kind in kinds if pa.types.is_floating(kind)]
    if not floating:
        return columns, ()
    narrowest = min(floating, key=lambda kind: kind.bit_width)
    if narrowest.bit_width == 64 or all(kind == narrowest for kind in kinds):
        return columns, ()
    rounded = list(columns)
    for index, kind in zip(prices, kinds, strict=True):
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            rounded[index] = columns[index].cast(pa.float64(), safe=False).cast(narrowest, safe=False)
    return rounded, (f"prices are stored in several widths: all are read in the narrowest, {narrowest}",)
