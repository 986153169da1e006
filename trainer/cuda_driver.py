"""What the NVIDIA driver says by itself, with no other CUDA software; no CUDA context is made."""

from __future__ import annotations

import ctypes

from trainer.compatibility import Version2, split_version

LIBRARY = "libcuda.so.1"


def driver_version() -> Version2 | None:
    """Returns the CUDA version that the installed driver supports; None without a driver."""
    number = ctypes.c_int()
    library = _library()
    if library is None or library.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None  # no driver, or a library without its kernel module
    return split_version(number.value) if number.value else None


def driver_devices() -> int:
    """Returns how many GPUs the driver shows to this process, under ``CUDA_VISIBLE_DEVICES``.

    Unlike torch's count it does not depend on a CUDA runtime, which a driver can be too old for.
    """
    count = ctypes.c_int()
    library = _library()
    if library is None or library.cuInit(0) != 0 or library.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError:
        return None
