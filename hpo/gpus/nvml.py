"""NVML: what the NVIDIA driver itself knows of a GPU, by UUID and without a CUDA context.

The few functions that are needed are called through ctypes: the library comes with the driver, and a
package around it would be one more thing that can be missing or belong to another driver.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Protocol

from trainer.errors import CudaSetupError

LIBRARY = "libnvidia-ml.so.1"
SUCCESS = 0
TEXT_BYTES = 96  # NVML_DEVICE_NAME_V2_BUFFER_SIZE, the longest text that is asked for


@dataclass(frozen=True)
class Memory:
    """Memory of a GPU, or of a MIG slice of one, over all processes; bytes."""

    total: int
    free: int
    used: int


class Nvml(Protocol):
    """What is asked of the driver. A UUID is ``GPU-...`` or ``MIG-...``.

    Every method raises :class:`trainer.errors.CudaSetupError` where the driver does not answer.
    """

    def memory(self, uuid: str) -> Memory:
        """Memory now."""

    def name(self, uuid: str) -> str:
        """The device's name."""

    def driver_version(self) -> str:
        """Version of the driver."""

    def utilisation(self, uuid: str) -> int:
        """Share of the last moments in which a kernel ran, percent."""


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class DriverNvml:
    """The driver's own library, initialised; see :func:`find_nvml`.

    Args:
        library: File name or path.

    Raises:
        CudaSetupError: Where there is no driver, or it refuses.
    """

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise CudaSetupError(f"the NVIDIA driver's {library} cannot be loaded ({error})") from None
        self._call("nvmlInit_v2")

    def memory(self, uuid: str) -> Memory:
        """Memory now."""
        found = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", self._device(uuid), ctypes.byref(found))
        return Memory(found.total, found.free, found.used)

    def name(self, uuid: str) -> str:
        """The device's name."""
        return self._text("nvmlDeviceGetName", self._device(uuid))

    def driver_version(self) -> str:
        """Version of the driver."""
        return self._text("nvmlSystemGetDriverVersion")

    def utilisation(self, uuid: str) -> int:
        """Share of the last moments in which a kernel ran, percent."""
        found = _Utilisation()
        self._call("nvmlDeviceGetUtilizationRates", self._device(uuid), ctypes.byref(found))
        return int(found.gpu)

    def _device(self, uuid: str) -> ctypes.c_void_p:
        device = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(device))
        return device

    def _text(self, function: str, *arguments: object) -> str:
        text = ctypes.create_string_buffer(TEXT_BYTES)
        self._call(function, *arguments, text, ctypes.c_uint(TEXT_BYTES))
        return text.value.decode()

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code != SUCCESS:
            describe = self._library.nvmlErrorString
            describe.restype = ctypes.c_char_p
            raise CudaSetupError(f"the NVIDIA driver refuses {function}: {describe(code).decode()}")


@functools.cache
def find_nvml() -> DriverNvml | None:
    """Opens the driver's library once in this process; None where there is none, or it refuses."""
    try:
        return DriverNvml()
    except CudaSetupError:
        return None
