"""Artifacts of a trial: small files in the study's folder that Optuna Dashboard shows beside the trial."""

from __future__ import annotations

import tempfile
from pathlib import Path

import optuna
from optuna.artifacts import FileSystemArtifactStore, get_all_artifact_meta, upload_artifact


def open_store(folder: Path) -> FileSystemArtifactStore:
    """Opens the store in ``folder``, making it if it is new."""
    folder.mkdir(parents=True, exist_ok=True)
    return FileSystemArtifactStore(folder)


def attach(store: FileSystemArtifactStore, trial: optuna.Trial, name: str, mimetype: str, text: str) -> None:
    """Gives a running trial an artifact; one of the same name, left by a driver that died, is replaced.

    Args:
        store: Where the file goes.
        trial: Not settled yet: Optuna keeps what a finished trial has.
        name: File name that the dashboard shows.
        mimetype: Images are shown on the trial's page, other files are offered there.
        text: The file's content.

    Raises:
        OSError: If it cannot be written.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8")
        known = {each.filename: each.artifact_id for each in get_all_artifact_meta(trial)}
        if name in known:
            with path.open("rb") as content:
                store.write(known[name], content)
        else:
            upload_artifact(
                artifact_store=store, file_path=str(path), study_or_trial=trial, mimetype=mimetype
            )
