"""The file of a journal storage: a last record that a dying process left half written is cut off."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

from optuna.storages.journal import JournalFileSymlinkLock

logger = logging.getLogger("foxtune")

OPERATION = "op_code"  # every record of Optuna's journal has it


def mend_tail(path: Path, lock: JournalFileSymlinkLock) -> Path | None:
    """Cuts a torn tail off a journal, after copying the whole file beside it, and logs a warning.

    Optuna appends one JSON object a line. A process that is killed in a write, a full disk or a power cut
    leaves part of a line, or zeros; the next record would be glued to it, and the journal unreadable from
    then on. The lock that writers take is held meanwhile, so that no write under way looks torn.

    A file without any whole record, or with whole records behind a broken one, is left as it is: it is no
    journal, or its damage is no torn tail, and opening it says so.

    Args:
        path: The journal; nothing happens if there is none.
        lock: Optuna's lock of that file.

    Returns:
        The copy, ``NAME.torn`` or the first free ``NAME.torn.K``; ``None`` if nothing was cut.
    """
    if not path.exists() or sound_bytes(path) is None:
        return None
    lock.acquire()
    try:
        keep = sound_bytes(path)
        if keep is None:
            return None
        backup = _free_name(path)
        shutil.copy2(path, backup)
        cut = path.stat().st_size - keep
        with path.open("r+b") as journal:
            journal.truncate(keep)
    finally:
        lock.release()
    logger.warning(
        "storage: the last record of %s was torn, %d bytes were cut; the whole file is kept as %s",
        path,
        cut,
        backup.name,
    )
    return backup


def require_journal(path: Path, lock: JournalFileSymlinkLock) -> None:
    """Refuses a file that holds something else, to which Optuna would append its records.

    Args:
        path: May be absent or empty: then a journal begins there.
        lock: Optuna's lock of that file; a first record that is being written is waited for.

    Raises:
        ValueError: With the reason.
    """
    if _begins_as_journal(path):
        return
    lock.acquire()
    try:
        if not _begins_as_journal(path):
            raise ValueError("it does not begin with a record of Optuna's journal")
    finally:
        lock.release()


def sound_bytes(path: Path) -> int | None:
    """Length up to which a journal holds whole records, if only its tail is torn; ``None`` otherwise."""
    end = position = 0
    torn = False
    with path.open("rb") as journal:
        for line in journal:
            position += len(line)
            if not _is_record(line):
                torn = True
            elif torn:
                return None
            else:
                end = position
    return end if torn and end else None


def _is_record(line: bytes) -> bool:
    if not line.endswith(b"\n"):
        return False
    try:
        record = json.loads(line)
    except ValueError:  # no JSON, or no text
        return False
    return isinstance(record, dict) and OPERATION in record


def _begins_as_journal(path: Path) -> bool:
    if not path.exists():
        return True
    with path.open("rb") as journal:
        first = journal.readline()
    return not first or _is_record(first)


def _free_name(path: Path) -> Path:
    backup, number = path.with_name(f"{path.name}.torn"), 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.torn.{number}")
    return backup
