"""Nvrtc: CUDA's run-time compiler, called as it comes in its wheel; needs no GPU and no driver."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trainer.errors import CudaSetupError

DISTRIBUTIONS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")  # CUDA 13 and later, CUDA 12
SYSTEM = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so")
INSTALL = 'install foxtune[cuda12] or foxtune[cuda13], for example: pip install -e ".[cuda13]"'


class KernelCompileError(Exception):
    """A kernel's source does not compile; the message is the compiler's log. A fault of the project."""


@dataclass(frozen=True)
class Compiled:
    """Machine code of one architecture.

    Attributes:
        cubin: The ELF image.
        log: Warnings, and what the assembler says with ``--ptxas-options=-v``.
    """

    cubin: bytes
    log: str


class Nvrtc:
    """One loaded compiler library; ``compile`` may be called from several threads.

    Args:
        library: The shared library.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    @functools.cached_property
    def version(self) -> tuple[int, int]:
        """CUDA version of the compiler, (major, minor)."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._checked(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return major.value, minor.value

    @functools.cached_property
    def architectures(self) -> tuple[int, ...]:
        """Compute capabilities that it compiles for, as 10 major + minor, ascending."""
        count = ctypes.c_int()
        self._checked(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        found = (ctypes.c_int * count.value)()
        self._checked(self._library.nvrtcGetSupportedArchs(found))
        return tuple(found)

    def compile(self, source: str, name: str, options: Iterable[str]) -> Compiled:
        """Compiles one translation unit to machine code.

        Args:
            source: CUDA C++.
            name: File name for messages.
            options: Among them ``--gpu-architecture=sm_XY``.

        Raises:
            KernelCompileError: With the compiler's log.
        """
        library, program = self._library, ctypes.c_void_p()
        text = source.encode()
        self._checked(library.nvrtcCreateProgram(ctypes.byref(program), text, name.encode(), 0, None, None))
        try:
            words = [option.encode() for option in options]
            status = library.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
            log = self._read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if status != 0:
                raise KernelCompileError(f"{name} ({' '.join(options)}):\n{log}")
            return Compiled(self._read(program, "CUBIN"), log)
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._checked(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._checked(getattr(self._library, f"nvrtcGet{what}")(program, buffer))
        return buffer.raw

    def _checked(self, status: int) -> None:
        if status != 0:
            self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise KernelCompileError(self._library.nvrtcGetErrorString(status).decode())


@functools.cache
def open_nvrtc(cuda_major: int | None = None) -> Nvrtc:
    """Loads the compiler: from its wheel, else from the system.

    Args:
        cuda_major: Preferred major version where both wheels are installed, that of torch's CUDA.

    Raises:
        CudaSetupError: If there is none, naming the extras that bring it.
    """
    wheels = sorted(_wheel_libraries(), key=lambda path: (_major(path) == cuda_major, _major(path)))
    for path in reversed(wheels):
        for builtins in path.parent.glob("libnvrtc-builtins.so.*"):
            # NVRTC asks for this library by its bare name: it is found if it is loaded already.
            ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)
        return Nvrtc(ctypes.CDLL(str(path)))
    for name in SYSTEM:
        try:
            return Nvrtc(ctypes.CDLL(name))
        except OSError:
            continue
    raise CudaSetupError(f"NVRTC, CUDA's run-time compiler, is not installed; {INSTALL}")


def _wheel_libraries() -> list[Path]:
    found: list[Path] = []
    for name in DISTRIBUTIONS:
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        libraries = [file for file in distribution.files or () if file.name.startswith("libnvrtc.so.")]
        found += [Path(str(distribution.locate_file(file))) for file in libraries]
    return [path for path in found if path.is_file()]


def _major(path: Path) -> int:
    return int(path.name.rpartition(".")[2])
