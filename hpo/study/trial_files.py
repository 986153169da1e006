"""Where the files of trials lie: each driver of a study keeps those of its trials in a folder of its own."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, TrialState

from hpo.study.attributes import FILES, FORKED_FROM
from hpo.study.run_directory import RunDirectory
from hpo.study.studies import HOST, RUN_DIRECTORY
from trainer.evaluation_file import EVALUATION_FILE

MOST_NUMBERS = 8  # of trials in one sentence


@dataclass(frozen=True)
class FilesPlace:
    """Where a trial's files were written.

    Attributes:
        host: The machine of its driver.
        folder: The study's folder there, absolute.
    """

    host: str
    folder: Path

    def trial(self, number: int) -> Path:
        """The folder of a trial there."""
        return RunDirectory(self.folder).trial(number)

    def __str__(self) -> str:
        return f"on {self.host} in {self.folder}"


def write_place(trial: optuna.Trial, directory: RunDirectory) -> None:
    """Stores that this machine keeps a trial's files in ``directory``; who goes on with it stores anew."""
    trial.set_user_attr(FILES, {"host": socket.gethostname(), "folder": str(directory.path)})


def place_elsewhere(study: optuna.Study, trial: FrozenTrial, directory: RunDirectory) -> FilesPlace | None:
    """Where a trial's files lie; ``None`` where that is ``directory``, unknown, or gone from this machine."""
    noted = trial.user_attrs.get(FILES)
    host, folder = study.user_attrs.get(HOST), study.user_attrs.get(RUN_DIRECTORY)
    if noted is not None:
        host, folder = noted["host"], noted["folder"]
    if host is None or folder is None or FORKED_FROM in trial.user_attrs:
        return None
    place = FilesPlace(host, Path(folder))
    if host != socket.gethostname():
        return place
    return place if place.folder != directory.path and place.trial(trial.number).exists() else None


def files_elsewhere(study: optuna.Study, directory: RunDirectory) -> str | None:
    """Says which COMPLETE trials have their bars elsewhere, and what to do; ``None`` if all are here.

    Args:
        study: Only read.
        directory: Its folder on this machine; need not exist.
    """
    missing: dict[FilesPlace, list[int]] = {}
    for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        place = place_elsewhere(study, trial, directory)
        if place is not None and not (directory.trial(trial.number) / EVALUATION_FILE).exists():
            missing.setdefault(place, []).append(trial.number)
    if not missing:
        return None
    lie = " and ".join(f"of {_trials(numbers)} lie {place}" for place, numbers in missing.items())
    return (
        f"left out are files that are not in {directory.path}: those {lie}; copy the folders trials and "
        "artifacts from there into it, or run the command there"
    )


def _trials(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"trial {numbers[0]}"
    shown = ", ".join(str(number) for number in numbers[:MOST_NUMBERS])
    left = len(numbers) - MOST_NUMBERS
    return f"trials {shown}" + (f" and {left} more" if left > 0 else "")
