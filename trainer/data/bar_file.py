"""load_file: a CSV or Parquet file becomes validated bars, step by step, and every step is told."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainer.config import DataConfig
from trainer.data.arch_source import INDEX_NAMES
from trainer.data.bar_draft import BarDraft
from trainer.data.bar_order import drop_duplicates, runs_backwards
from trainer.data.bar_rules import mend
from trainer.data.bars import Bars, Findings
from trainer.data.cell_numbers import read_numbers
from trainer.data.csv_file import read_csv
from trainer.data.likely_splits import split_warnings
from trainer.data.local_time import to_utc
from trainer.data.parquet_file import MAGIC, read_parquet
from trainer.data.price_adjustment import refuse_splits, use_adjusted
from trainer.data.raw_table import RawTable
from trainer.data.stale_prices import stale_warnings
from trainer.data.time_columns import refuse_other_times
from trainer.data.timestamps import Stamps, read_timestamps
from trainer.errors import ConfigError

COMPRESSED = ((b"\x1f\x8b", "gzip"), (b"PK\x03\x04", "zip or Excel"), (b"BZh", "bzip2"), (b"\xfd7zXZ", "xz"))

# What stands in a file's place where a download went wrong, by its first bytes, and what to do.
NO_TABLES = (
    (b"<!doctype", "is a web page; download it again, and look at it if it says why"),
    (b"<html", "is a web page; download it again, and look at it if it says why"),
    (b"version https://git-lfs", "is a pointer of Git LFS; fetch the file itself with git lfs pull"),
)


def load_file(config: DataConfig) -> Bars:
    """Reads, orders, checks, mends and adjusts the bars of one file.

    Raises:
        ConfigError: Naming the key that has to change.
        DataError: Naming the column, the file line, the value and the fix.
    """
    table = _read_table(existing_file(config.path), config)
    stamps = read_timestamps(table, config)
    refuse_other_times(table, stamps)
    turned = runs_backwards(stamps.instant)
    order = slice(None, None, -1) if turned else slice(None)
    ordered = Stamps(stamps.instant[order], stamps.aware, stamps.unit)
    utc = to_utc(ordered, config.tz, table.source, table.place, table.line[order])
    draft, notes = _draft(table, config, stamps)
    draft = replace(draft.take(order), timestamp=utc.instant)
    zone = None if stamps.aware or stamps.date_only else config.tz
    draft, duplicates = drop_duplicates(draft, not stamps.aware and config.tz is None, zone)
    before = len(draft)
    draft, repairs = mend(draft, config.repair)
    if repairs:
        notes.append(f"data.repair = {config.repair}: {len(draft)} of {before} bars kept")
    draft, adjusted = use_adjusted(draft)
    splits: tuple[str, ...] = ()
    if not config.allow_jumps:
        refuse_splits(draft)
        splits = split_warnings(draft)
    findings = Findings(
        source=table.source,
        dialect=table.dialect,
        time_unit=stamps.unit,
        time_zone=utc.time_zone,
        reversed=turned,
        duplicates_dropped=duplicates,
        adjusted=adjusted,
        repairs=repairs,
        notes=(*table.notes, *notes),
        warnings=(*utc.warnings, *splits, *stale_warnings(draft)),
    )
    prices = (draft.open, draft.high, draft.low, draft.close)
    return Bars(draft.timestamp, *prices, draft.volume, findings, returns=config.returns)


def existing_file(name: str) -> Path:
    """Resolves ``data.path`` to an absolute path of a file.

    Raises:
        ConfigError: For a path that does not exist, with the nearest known market, or that is a folder.
    """
    path = Path(name).expanduser().absolute()
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass  # told below, with what the name may have meant
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            "data.path", f"{name[:80]!r} cannot be read ({reason}); give another file"
        ) from None
    if path.is_dir():
        raise ConfigError("data.path", f"{path} is a folder; give a CSV or Parquet file in it")
    if not path.is_file():
        near = difflib.get_close_matches(name, INDEX_NAMES, n=1)
        fix = (
            f"did you mean {near[0]!r}?"
            if near
            else "give a file, or one of sp500, nasdaq, synthetic:known_answer"
        )
        raise ConfigError("data.path", f"no file {path}; {fix}")
    return path


def _read_table(path: Path, config: DataConfig) -> RawTable:
    """Picks the reader by the first bytes: an extension can be wrong."""
    try:
        with path.open("rb") as file:
            start = file.read(512)
    except OSError as error:
        raise ConfigError(
            "data.path", f"{path} cannot be read ({error.strerror}); mend its permissions"
        ) from None
    if start.startswith(MAGIC):
        return read_parquet(path, config)
    if path.suffix.lower() in (".parquet", ".pq") and start:
        raise ConfigError(
            "data.path", f"{path} is no Parquet file; name it .csv if it is one, or write it again"
        )
    for magic, kind in COMPRESSED:
        if start.startswith(magic):
            raise ConfigError("data.path", f"{path} is a {kind} file; unpack it or save it as CSV or Parquet")
    for magic, words in NO_TABLES:
        if start.lstrip().lower().startswith(magic):
            raise ConfigError("data.path", f"{path} {words}")
    if start.lstrip()[:1] in (b"{", b"["):
        raise ConfigError("data.path", f"{path} looks like JSON; save it as CSV or Parquet")
    return read_csv(path, config)


def _volume(table: RawTable) -> tuple[NDArray[np.float64], list[str]]:
    """The first volume that is not 0 throughout, as that of the exchange is in a file of currencies."""
    volume, notes = np.zeros(len(table.line)), ["no volume in the file: 0 is used"]
    for place, index in enumerate(table.roles.volumes):
        candidate = read_numbers(table, index, whole=True)
        if np.isnan(candidate).all():
            continue
        if candidate.any():
            first, chosen = table.names[table.roles.volumes[0]], table.names[index]
            return candidate, [f"column {first} is empty or 0: {chosen} is the volume"] if place else []
        volume, notes = candidate, []
    return volume, notes


def _draft(table: RawTable, config: DataConfig, stamps: Stamps) -> tuple[BarDraft, list[str]]:
    roles = table.roles
    volume, notes = _volume(table)
    adjusted = None if roles.adjusted is None else read_numbers(table, roles.adjusted)
    if adjusted is not None and config.returns == "difference":
        notes.append("Adj Close is not used: data.returns = difference counts quoted prices")
        adjusted = None
    draft = BarDraft(
        source=table.source,
        place=table.place,
        line=table.line,
        timestamp=stamps.instant,
        open=read_numbers(table, roles.open),
        high=read_numbers(table, roles.high),
        low=read_numbers(table, roles.low),
        close=read_numbers(table, roles.close),
        volume=volume,
        adjusted=adjusted,
        returns=config.returns,
    )
    return draft, notes
