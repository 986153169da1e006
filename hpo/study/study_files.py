"""What the folder of a study holds, by kind, and which of it nobody needs any more."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Set
from dataclasses import dataclass
from pathlib import Path

from hpo.study.run_directory import LOG, RunDirectory
from hpo.trial.watchdog import HANG
from trainer.evaluation_file import EVALUATION_FILE
from trainer.file_names import CHECKPOINT, WEIGHTS
from trainer.trial_statistics import STATISTICS_FILE
from trainer.whole_file import PARTIAL

TRIALS = "trials"
DATABASE = (".db", ".db-wal", ".db-shm", ".log", ".lock", ".torn")


class Kind(enum.Enum):
    """What a file is, as the table calls it."""

    CHECKPOINTS = "checkpoints"  # to go on with a trial that was interrupted
    LOGS = "logs"
    WEIGHTS = "weights"  # what replay, holdout, export and signal use
    EVALUATIONS = "evaluations"  # what the report reads
    ARTIFACTS = "artifacts"  # pictures and log tails of Optuna Dashboard
    SCRATCH = "scratch"  # of Ray, and of writes that were cut off
    STORAGE = "storage"  # the study itself, where it lies in the folder
    OTHER = "other"


BY_NAME = {
    CHECKPOINT: Kind.CHECKPOINTS,
    LOG: Kind.LOGS,
    HANG: Kind.LOGS,
    WEIGHTS: Kind.WEIGHTS,
    EVALUATION_FILE: Kind.EVALUATIONS,
    STATISTICS_FILE: Kind.EVALUATIONS,
}


@dataclass(frozen=True)
class StudyFile:
    """A file of a study.

    Attributes:
        path: Where it lies.
        kind: What it is.
        size: Bytes.
        trial: Number of the trial that it belongs to; ``None`` if to none.
    """

    path: Path
    kind: Kind
    size: int
    trial: int | None


def files_of(directory: RunDirectory) -> list[StudyFile]:
    """Lists every file below a study's folder; links are not followed."""
    found = []
    for path in sorted(directory.path.rglob("*")):
        if path.is_file() or path.is_symlink():
            parts = path.relative_to(directory.path).parts
            trial = int(parts[1]) if parts[0] == TRIALS and len(parts) > 2 and parts[1].isdecimal() else None
            found.append(StudyFile(path, _kind(directory, path, trial), path.lstat().st_size, trial))
    return found


def to_free(
    files: Iterable[StudyFile],
    ended: Set[int],
    best: int | None,
    *,
    logs: bool = False,
    weights: bool = False,
) -> list[StudyFile]:
    """Chooses what nobody needs any more.

    Args:
        files: Of the study.
        ended: Numbers of the trials that have ended; what the others have is needed to go on.
        best: The best trial, whose weights are kept.
        logs: Whether logs of ended trials go too.
        weights: Whether the weights of ended trials but the best one go too.
    """
    unneeded = {Kind.CHECKPOINTS} | ({Kind.LOGS} if logs else set()) | ({Kind.WEIGHTS} if weights else set())
    return [
        file
        for file in files
        if file.kind is Kind.SCRATCH
        or (
            file.kind in unneeded
            and file.trial in ended
            and not (file.kind is Kind.WEIGHTS and file.trial == best)
        )
    ]


def table_of(files: list[StudyFile], freed: list[StudyFile]) -> str:
    """Lays kinds, counts, sizes and what can be freed out, one line a kind."""
    rows = [("", "files", "size", "can be freed")]
    for kind in Kind:
        held = [file for file in files if file.kind is kind]
        if held:
            gone = [file for file in freed if file.kind is kind]
            rows.append((kind.value, str(len(held)), size_text(held), size_text(gone) if gone else "-"))
    rows.append(("total", str(len(files)), size_text(files), size_text(freed) if freed else "-"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    name, count, size, free = widths
    return "\n".join(f"{a:<{name}}  {b:>{count}}  {c:>{size}}  {d:>{free}}" for a, b, c, d in rows)


def size_text(files: Iterable[StudyFile]) -> str:
    """The size of files together, for people."""
    size, units = float(sum(file.size for file in files)), ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


def _kind(directory: RunDirectory, path: Path, trial: int | None) -> Kind:
    if path.is_relative_to(directory.scratch) or path.suffix == PARTIAL or path == directory.stop_file:
        return Kind.SCRATCH
    if path.is_relative_to(directory.artifacts):
        return Kind.ARTIFACTS
    if trial is not None:
        return BY_NAME.get(path.name, Kind.OTHER)
    stored = path.parent == directory.path and path != directory.lock_file
    return Kind.STORAGE if stored and any(end in path.name for end in DATABASE) else Kind.OTHER
