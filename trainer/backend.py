"""Backend: which implementation trains, on which device, and the one line that says so."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Literal

import torch

from trainer.compatibility import CudaStack, breakage, obstacle
from trainer.config import TrainerConfig
from trainer.config.sections import TrainingConfig
from trainer.cuda_driver import driver_devices
from trainer.errors import ConfigError

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Backend:
    """The resolved choice.

    Attributes:
        name: Which implementation.
        device: Where every tensor lives.
        dtype: Floating type of environment and parameters.
        note: One line for the user.
    """

    name: Literal["reference", "fused"]
    device: torch.device
    dtype: torch.dtype
    note: str


def resolve_backend(config: TrainerConfig) -> Backend:
    """Chooses the backend and sets torch's intra-op threads.

    ``fused`` is met or refused. ``auto`` takes it wherever it can run; where a part is absent it takes the
    reference on the CPU, and a broken installation is refused.
    The reference runs on the CPU unless ``training.device`` names another device.

    Raises:
        ConfigError: If CUDA is asked for in vain, or what is installed of it cannot work.
    """
    training = config.training
    torch.set_num_threads(training.threads)
    if training.backend == "fused":
        _require_fused(training)
        return _fused(training)
    if training.device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(
            "training.device",
            f"needs a CUDA device, but got {training.device!r} with {_no_gpus()}; "
            "set training.device = 'cpu'",
        )
    if training.backend == "auto":
        _refuse_breakage(training)
        reason = _why_not_fused(training)
        return _reference(training, reason) if reason else _fused(training)
    return _reference(training, "")


def _require_fused(training: TrainingConfig) -> None:
    reason = _why_not_fused(training)
    if reason:
        raise ConfigError(
            "training.backend",
            f"fused cannot run here: {reason}; give the training a GPU with resources.gpu, "
            "or use --backend reference",
        )


def _refuse_breakage(training: TrainingConfig) -> None:
    """What is absent lets ``auto`` fall back; a broken installation does not."""
    if training.device != "cpu" and training.dtype == "float32" and _gpu_is_there():
        broken = breakage(_stack())
        if broken:
            raise ConfigError(
                "training.backend",
                f"auto found a GPU that cannot be used: {broken}; or use --backend reference",
            )


def _why_not_fused(training: TrainingConfig) -> str:
    """Returns the reason, or nothing. What needs no look at the machine comes first."""
    if training.device not in ("auto", "cuda"):
        return f"training.device = {training.device!r}"
    if training.dtype != "float32":
        return f"training.dtype = {training.dtype!r}"
    return obstacle(_stack()) if _gpu_is_there() else _no_gpus()


def _gpu_is_there() -> bool:
    """Torch sees none where it is a CPU build or the driver is too old for it: the stack says that."""
    return torch.cuda.is_available() or driver_devices() > 0


@functools.cache
def _stack() -> CudaStack:
    """What this process runs on does not change while it runs."""
    from trainer.cuda_stack import read_stack  # brings the kernels' loader, which the CPU never needs

    return read_stack()


def _no_gpus() -> str:
    setting = os.environ.get(VISIBLE)
    return "0 GPUs visible" + (f" ({VISIBLE}={setting!r})" if setting is not None else "")


def _fused(training: TrainingConfig) -> Backend:
    device = torch.device("cuda")
    note = f"backend fused on {torch.cuda.get_device_name(device)}, {training.precision} products"
    return Backend("fused", device, torch.float32, note)


def _reference(training: TrainingConfig, reason: str) -> Backend:
    device = torch.device("cpu" if training.device == "auto" else training.device)
    dtype = torch.float64 if training.dtype == "float64" else torch.float32
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
    why = f" ({reason})" if reason else ""
    threads = f"{training.threads} thread" + ("s" if training.threads > 1 else "")
    note = f"backend reference on {where}{why}, {training.dtype}, {threads}"
    return Backend("reference", device, dtype, note)
