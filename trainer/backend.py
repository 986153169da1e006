"""Backend: which implementation trains, on which device, and the one line that says so."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer.config import TrainerConfig
from trainer.errors import ConfigError


@dataclass(frozen=True)
class Backend:
    """The resolved choice.

    Attributes:
        name: ``reference``.
        device: Where every tensor lives.
        dtype: Floating type of networks and environment.
        note: One line for the user.
    """

    name: str
    device: torch.device
    dtype: torch.dtype
    note: str


def resolve_backend(config: TrainerConfig) -> Backend:
    """Chooses the backend and sets torch's intra-op threads.

    Raises:
        ConfigError: If ``training.device`` asks for CUDA and none is visible.
    """
    wanted = config.training.device
    available = torch.cuda.is_available()
    if wanted.startswith("cuda") and not available:
        raise ConfigError(
            "training.device",
            f"needs a CUDA device, but got {wanted!r} with 0 GPUs visible; set training.device = 'cpu'",
        )
    name = wanted if wanted != "auto" else ("cuda" if available else "cpu")
    device = torch.device(name)
    torch.set_num_threads(config.training.threads)
    dtype = torch.float64 if config.training.dtype == "float64" else torch.float32
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
    fallback = " (no CUDA device is visible)" if wanted == "auto" and not available else ""
    threads = f"{config.training.threads} thread{'s' if config.training.threads > 1 else ''}"
    note = f"backend reference on {where}{fallback}, {config.training.dtype}, {threads}"
    return Backend("reference", device, dtype, note)
