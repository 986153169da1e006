"""Where a training in this process runs, decided without CUDA and said before any heavy work."""

from __future__ import annotations

import os
from collections.abc import Mapping

from hpo.config import SearchConfig
from hpo.gpus.resources import VISIBLE, Gpu, check_gpus
from trainer.config import TrainerConfig


def settle_device(config: SearchConfig, origins: Mapping[str, str], gpus: tuple[Gpu, ...]) -> TrainerConfig:
    """Chooses the device. An explicit request is met or refused; only ``auto`` falls back to the CPU.

    Args:
        config: The effective configuration.
        origins: Which keys somebody has set; ``resources.gpu`` among them is an explicit request, and so is
            a ``CUDA_VISIBLE_DEVICES`` in the environment.
        gpus: The visible ones.

    Returns:
        The trainer's configuration with the reference backend on the CPU if no GPU is to be used.

    Raises:
        ConfigError: A GPU was asked for, and none is visible.
    """
    if config.gpus_per_trial == 0:
        return config.trial_trainer
    device, backend = config.trainer.training.device, config.trainer.training.backend
    asked = device.startswith("cuda") or backend == "fused"
    asked = asked or "resources.gpu" in origins or VISIBLE in os.environ
    if asked and device != "cpu":
        check_gpus(config, gpus)
    if gpus or device == "cpu":
        return config.trainer
    return config.trainer.with_overrides({"training.backend": "reference", "training.device": "cpu"})


def device_line(config: TrainerConfig, gpus: tuple[Gpu, ...]) -> str:
    """One line that says where it trains: the GPU's name, UUID and free memory, or the CPU and why."""
    if config.training.device != "cpu" and gpus:
        first = gpus[0]
        free = "unknown" if first.free_mib is None else f"{first.free_mib} MiB"
        return f"{first.name}, UUID {first.uuid}, {free} free"
    reason = "0 GPUs visible" if not gpus else "as asked"
    return (
        f"reference backend on the CPU ({reason}), {config.training.dtype}, {config.training.threads} thread"
    )
