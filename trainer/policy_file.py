"""Policy files: a trial's ``weights.pt``, and what ``foxtune export`` writes for another machine.

Both are written by ``torch.save`` and read with ``weights_only=True``: tensors, numbers, texts and
lists, no code. The keys:

    format            1
    config            the effective configuration, {section: {key: value}}
    data_hash         SHA-256 of the data that was trained on
    members           [(seed, fold)], M of them; an export holds the last fold's alone
    agent             q [M, P] and, with IQL, value [2M, P'] (V_high, then V_low): flat parameter blocks
    scaler            center [M, F] and inverse_scale [M, F], fitted on each member's training window
    sigma             [M] float64, deviation of the training windows' bar returns
    fill              next_open or next_close, how market orders filled
    feature_names     F names
    feature_version   of the formulas behind them
    step              seconds between neighbouring bars of the training, None if it varies; not in older files
    origin            an export's study, trial, value and date; absent in weights.pt
    versions          an export's {package: version} of the training; absent in weights.pt
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trainer.checkpoint import read_checkpoint, write_checkpoint
from trainer.config import TrainerConfig
from trainer.deployed_policy import DeployedPolicy
from trainer.errors import CheckpointError
from trainer.members import Member

KEYS = (
    "config",
    "data_hash",
    "members",
    "agent",
    "scaler",
    "sigma",
    "fill",
    "feature_names",
    "feature_version",
)


def read_policy(path: Path, remedy: str = "write it again, see `foxtune export`") -> DeployedPolicy:
    """Reads the newest model of every seed.

    Args:
        path: A trial's ``weights.pt`` or an exported file.
        remedy: What the user can do about a bad one, for the error.

    Raises:
        CheckpointError: The file is missing, torn, or no policy.
    """
    if not path.is_file():
        raise CheckpointError(f"a policy must exist at {path}, but there is none; see `foxtune export`")
    state = read_checkpoint(path, remedy)
    missing = [key for key in KEYS if key not in state]
    if missing:
        raise CheckpointError(
            f"{path} is no policy of this version: it lacks {', '.join(missing)}; train it again with "
            f"foxtune replay STUDY --number N --out {path.parent}"
        )
    return DeployedPolicy(
        config=TrainerConfig.build(state["config"]),
        members=tuple(Member(seed, fold) for seed, fold in state["members"]),
        data_hash=state["data_hash"],
        feature_names=tuple(state["feature_names"]),
        feature_version=state["feature_version"],
        fill=state["fill"],
        weights=state["agent"],
        center=state["scaler"]["center"],
        inverse_scale=state["scaler"]["inverse_scale"],
        sigma=state["sigma"].to(torch.float64),
        step=state.get("step"),
    ).newest()


def write_policy(
    path: Path,
    policy: DeployedPolicy,
    origin: Mapping[str, str | int | float] | None = None,
    versions: Mapping[str, str] | None = None,
) -> None:
    """Writes ``policy`` as one file, whole or not at all.

    Args:
        path: Where; replaced if it exists.
        policy: Of which ``read_policy`` gives the newest models back.
        origin: Where an export comes from, for the reader.
        versions: Of an export: package -> version of the process that trained it.
    """
    state: dict[str, Any] = {
        "config": policy.config.model_dump(mode="json"),
        "data_hash": policy.data_hash,
        "members": [(member.seed, member.fold) for member in policy.members],
        "agent": policy.weights,
        "scaler": {"center": policy.center, "inverse_scale": policy.inverse_scale},
        "sigma": policy.sigma,
        "fill": policy.fill,
        "feature_names": list(policy.feature_names),
        "feature_version": policy.feature_version,
        "step": policy.step,
    }
    if origin is not None:
        state["origin"] = dict(origin)
    if versions is not None:
        state["versions"] = dict(versions)
    write_checkpoint(path, state)
