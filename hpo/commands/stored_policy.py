"""Reading the models that a COMPLETE trial left in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainer.errors import ConfigError
from trainer.file_names import WEIGHTS

if TYPE_CHECKING:
    from hpo.commands.stored_trial import StoredTrial
    from hpo.study.studies import OpenStudy
    from trainer.deployed_policy import DeployedPolicy


def read_stored_policy(opened: OpenStudy, stored: StoredTrial) -> DeployedPolicy:
    """Reads the newest model of every seed of a trial.

    Raises:
        ConfigError: The trial is not COMPLETE, its weights are gone, or they saw other data.
        CheckpointError: The file is torn or of another version.
    """
    from optuna.trial import TrialState

    from hpo.study.trial_files import place_elsewhere
    from trainer.policy_file import read_policy

    trial = stored.trial
    if trial.state != TrialState.COMPLETE:
        raise ConfigError(
            "--number",
            f"trial {trial.number} is {trial.state.name}, and only a COMPLETE trial keeps its weights; "
            "choose one, or leave --number out for the best",
        )
    path = weights_file(opened, trial.number)
    again = f"train it again with foxtune replay {stored.study} --number {trial.number} --out {path.parent}"
    if not path.is_file():
        place = place_elsewhere(opened.study, trial, opened.directory)
        if place is not None:
            raise ConfigError(
                "--number",
                f"the weights of trial {trial.number} are not in {path.parent}: its files lie {place}; "
                f"copy {place.trial(trial.number)} from there, or run the command there",
            )
        raise ConfigError("--number", f"trial {trial.number} has no weights at {path}; {again}")
    policy = read_policy(path, again)
    if policy.data_hash != stored.data_hash:
        raise ConfigError(
            "--number",
            f"trial {trial.number} saw data with hash {stored.data_hash[:12]}, but {path} was trained on "
            f"{policy.data_hash[:12]}; restore the trial's own weights",
        )
    return policy


def weights_file(opened: OpenStudy, number: int) -> Path:
    """Where a trial's weights lie."""
    return opened.directory.trial(number) / WEIGHTS
