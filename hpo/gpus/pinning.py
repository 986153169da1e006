"""Pinning: a trial on a GPU sees exactly what it was given, and its log says which device that is."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Protocol

from hpo.gpus.resources import MIG_UUID, VISIBLE
from trainer.errors import ConfigError
from trainer.wording import plural

MIB = 2**20


class DeviceProperties(Protocol):
    """What ``torch.cuda.get_device_properties`` returns, as far as it is read here."""

    @property
    def name(self) -> str:
        """The device's name."""

    @property
    def uuid(self) -> object:
        """Prints as the UUID without its prefix."""


class CudaDevices(Protocol):
    """The part of ``torch.cuda`` that is asked."""

    def device_count(self) -> int:
        """Devices that CUDA shows this process."""

    def get_device_properties(self, device: int) -> DeviceProperties:
        """Name and UUID."""

    def mem_get_info(self, device: int) -> tuple[int, int]:
        """Free and total memory, bytes."""


@dataclass(frozen=True)
class PinnedGpu:
    """A device that this process sees.

    Attributes:
        name: As CUDA calls it.
        uuid: ``GPU-...``, or the ``MIG-...`` that selects a slice.
        free: Free memory when it was looked at, bytes.
    """

    name: str
    uuid: str
    free: int

    def __str__(self) -> str:
        return f"{self.name}, UUID {self.uuid}, {self.free // MIB} MiB free"


def pin(gpus: float, cuda: CudaDevices) -> tuple[PinnedGpu, ...]:
    """Asserts that this process sees as many devices as its trial asked for.

    CUDA itself is asked, because it alone knows what it makes of ``CUDA_VISIBLE_DEVICES``: numbers, UUIDs
    and MIG slices alike. It makes the context that the training is going to need.

    Args:
        gpus: GPUs of the trial, above 0; a share of one still means one device.
        cuda: ``torch.cuda``.

    Returns:
        The devices.

    Raises:
        ConfigError: Naming ``resources.gpu`` if none, too few or too many are visible.
    """
    setting = os.environ.get(VISIBLE)
    shown = cuda.device_count()
    _require_count(shown, max(1, math.ceil(gpus)), setting)
    return tuple(_describe(cuda, device, setting) for device in range(shown))


def _require_count(shown: int, wanted: int, setting: str | None) -> None:
    if shown == wanted:
        return
    fix = (
        "make one visible to the node's Ray, or use --backend reference --gpus-per-trial 0"
        if shown < wanted
        else "unset RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES, so that Ray shows each trial its own"
    )
    variable = "" if setting is None else f" ({VISIBLE}={setting!r})"
    raise ConfigError(
        "resources.gpu",
        f"{plural(shown, 'GPU')} visible{variable}, but the trial was given {wanted}; {fix}",
    )


def _describe(cuda: CudaDevices, device: int, setting: str | None) -> PinnedGpu:
    properties = cuda.get_device_properties(device)
    free, _ = cuda.mem_get_info(device)
    entries = [] if setting is None else [entry.strip() for entry in setting.split(",")]
    slice_ = device < len(entries) and entries[device].startswith(MIG_UUID)
    uuid = entries[device] if slice_ else f"GPU-{properties.uuid}"
    return PinnedGpu(properties.name, uuid, free)
