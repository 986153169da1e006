"""Whether the GPUs that a configuration asks for are there, said before any heavy work."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch

from hpo.config import SearchConfig
from trainer.config import TrainerConfig
from trainer.errors import ConfigError

VISIBLE = "CUDA_VISIBLE_DEVICES"


def settle_device(config: SearchConfig, origins: Mapping[str, str]) -> TrainerConfig:
    """Decides where one training in this process runs, and prints it as one line.

    Args:
        config: The effective configuration.
        origins: Which keys were set by somebody: an explicit request is met or refused, never bent.

    Returns:
        The trainer's configuration, on the CPU if no GPU was asked for and none is visible.

    Raises:
        ConfigError: A GPU was asked for, and none is visible.
    """
    if config.gpus_per_trial == 0:
        return config.trial_trainer
    device = config.trainer.training.device
    asked = device.startswith("cuda") or "resources.gpu" in origins
    if torch.cuda.device_count() == 0:
        if device == "cpu" and not asked:
            return config.trainer
        if asked or os.environ.get(VISIBLE) is not None:
            raise ConfigError("resources.gpu", no_gpu_message())
        return config.trainer.with_overrides({"training.backend": "reference", "training.device": "cpu"})
    return config.trainer


def no_gpu_message() -> str:
    """The rule, what was found, and both ways out."""
    return (
        f"needs a GPU, but got 0 GPUs visible ({VISIBLE}{_shown()}); "
        "use --gpus-per-trial 0 or --backend reference to train on the CPU"
    )


def gpu_lines() -> list[str]:
    """One line per visible GPU: index as this process counts, name, UUID, free memory in MiB."""
    lines: list[str] = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        free, _ = torch.cuda.mem_get_info(index)
        lines.append(f"GPU {index}: {properties.name}, UUID {properties.uuid}, {free // 2**20} MiB free")
    return lines


def _shown() -> str:
    value = os.environ.get(VISIBLE)
    return " is not set" if value is None else f"={value!r}"
