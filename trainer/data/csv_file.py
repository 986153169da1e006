"""CSV files: encoding, leading comment lines, header and cells, with the file line of every row."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np

from trainer.config import DataConfig
from trainer.data.columns import DELIMITERS, assign_roles, known_columns
from trainer.data.encodings import decoded
from trainer.data.raw_table import RawTable, places
from trainer.errors import ConfigError, DataError
from trainer.wording import plural

MAX_LEADING_LINES = 20
COMMENT = "#"
NAMED_DELIMITERS = {"tab": "\t", "\\t": "\t"}  # what people write where a tab is meant


def read_csv(path: Path, config: DataConfig) -> RawTable:
    """Reads every cell as text.

    Raises:
        ConfigError: For a delimiter that is not one character, or a file that is no text.
        DataError: For rows of another width than the header, or no rows at all.
    """
    delimiter = _delimiter(config)
    lines = _text(path).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    header = _header_index(path, lines, delimiter)
    names = tuple(_cells(lines[header], delimiter))
    body = "\n".join(lines[header + 1 :])
    roles = assign_roles(names, f"{path}, line {header + 1}", body.lstrip("\n").split("\n", 1)[0])
    if not body.strip():
        raise DataError(f"{path}, line {header + 1}: there is a header but no bar below it; add rows")
    columns, rows = _parse(path, body, header + 1, len(names), delimiter)
    notes = [f"skipped {plural(header, 'leading line')}: {lines[0][:60]!r}"] if header else []
    decimal = config.decimal or "."
    dialect = f"CSV, delimiter {delimiter!r}, decimal {decimal!r}"
    return RawTable(str(path), names, columns, rows, "line", dialect, roles, config.decimal, tuple(notes))


def _delimiter(config: DataConfig) -> str:
    chosen = config.delimiter if config.delimiter is not None else ","
    delimiter = NAMED_DELIMITERS.get(chosen, chosen)
    if len(delimiter) != 1 or delimiter in '\n\r"' or not delimiter.isascii():
        raise ConfigError("data.delimiter", f"one character is needed, but got {config.delimiter!r}")
    return delimiter


def _text(path: Path) -> str:
    content = path.read_bytes()
    if not content.strip():
        raise ConfigError("data.path", f"{path} is empty; give a file with a header and bars")
    return decoded(path, content)


def _cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])]


def _header_index(path: Path, lines: list[str], delimiter: str) -> int:
    """The first line with two known column names, else the first that is neither blank nor a comment.

    Names that another delimiter parts count too: the refusal then shows the header, and not a title above it.
    """
    for marks in ((delimiter,), DELIMITERS):
        for index, line in enumerate(lines[:MAX_LEADING_LINES]):
            if any(known_columns(_cells(line, mark)) >= 2 for mark in marks):
                return index
    for index, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith(COMMENT):
            return index
    raise ConfigError("data.path", f"{path} holds nothing but comments; give a file with a header and bars")


def _parse(path: Path, body: str, offset: int, width: int, delimiter: str) -> tuple[tuple[Any, ...], Any]:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv as arrow_csv

    skipped: list[Any] = []

    def on_invalid(row: Any) -> str:
        skipped.append(row)
        return "skip"

    keys = [str(index) for index in range(width)]
    table = arrow_csv.read_csv(
        io.BytesIO(body.encode()),
        read_options=arrow_csv.ReadOptions(column_names=keys, use_threads=False),
        parse_options=arrow_csv.ParseOptions(
            delimiter=delimiter, ignore_empty_lines=False, invalid_row_handler=on_invalid
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types={key: pa.string() for key in keys}, strings_can_be_null=False, null_values=[]
        ),
    )
    ragged = [row for row in skipped if not row.text.lstrip().startswith(COMMENT) and row.text.strip()]
    if ragged:
        lines = np.array([row.number + offset for row in ragged], dtype=np.int64)
        raise DataError(_ragged_message(path, places("line", lines), ragged[0], delimiter))
    kept = np.ones(table.num_rows + len(skipped), dtype=bool)
    kept[[row.number - 1 for row in skipped]] = False
    line = np.flatnonzero(kept) + 1 + offset
    columns = [pc.utf8_trim_whitespace(table.column(key)) for key in keys]
    if table.num_rows and "\n" in (columns[-1][-1].as_py() or ""):
        raise DataError(f"{path}, line {line[-1]}: a quote is opened and never closed; close it")
    filled = np.zeros(table.num_rows, dtype=bool)
    for column in columns:
        filled |= pc.not_equal(column, "").to_numpy()
    filled &= ~pc.starts_with(columns[0], COMMENT).to_numpy()
    if not filled.any():
        raise DataError(f"{path}, line {offset}: there is a header but no bar below it; add rows")
    return tuple(column.filter(pa.array(filled)) for column in columns), line[filled]


def _ragged_message(path: Path, where: str, row: Any, delimiter: str) -> str:
    if row.text.count('"') % 2:
        return f"{path}, {where}: a quote is opened and never closed, in {row.text[:80]!r}; close it"
    hint = "make them equal, or remove the line if it is no bar"
    if delimiter == "," and re.search(r"\d,\d", row.text) and row.actual_columns > row.expected_columns:
        hint += ", or quote numbers that contain a comma"
    return (
        f"{path}, {where}: {plural(row.actual_columns, 'cell')} where the header has {row.expected_columns}, "
        f"in {row.text[:80]!r}; {hint}"
    )
