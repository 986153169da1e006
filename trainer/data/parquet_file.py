"""Parquet files: columns of any type, rows numbered from 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainer.data.columns import assign_roles
from trainer.data.raw_table import RawTable
from trainer.errors import ConfigError, DataError

MAGIC = b"PAR1"


def read_parquet(path: Path) -> RawTable:
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
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return RawTable(
        source=str(path),
        names=tuple(table.column_names),
        columns=tuple(columns),
        line=np.arange(1, table.num_rows + 1, dtype=np.int64),
        place="row",
        dialect="Parquet",
        roles=assign_roles(table.column_names, str(path), None),
    )
