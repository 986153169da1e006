"""load: a CUDA kernel by name, compiled at its first use and launched on torch's current stream."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainer.errors import CudaSetupError
from trainer.kernels.compilation import Defines, KernelBuilder, KernelSpec
from trainer.kernels.cubin_cache import CubinCache
from trainer.kernels.nvrtc import INSTALL, open_nvrtc

DEFAULT_SHARED_BYTES = 48 * 1024  # what a block gets without asking


class Kernel:
    """The entry point of a source, called like its file; compiled and loaded when it is first launched.

    Args:
        spec: What is compiled.
    """

    def __init__(self, spec: KernelSpec) -> None:
        self.name = spec.name
        self.spec = spec
        self._shared_bytes = DEFAULT_SHARED_BYTES

    def launch(
        self,
        grid: tuple[int, ...],
        block: int | tuple[int, ...],
        *args: Tensor | np.generic,
        shared_bytes: int = 0,
    ) -> None:
        """Enqueues the kernel on torch's current stream; allocates nothing and waits for nothing.

        The first launch may compile, and so must come before a capture.

        Args:
            grid: Blocks in x, y, z.
            block: Threads of a block.
            *args: Tensors are passed as addresses, numpy scalars by value.
            shared_bytes: Dynamic shared memory. More than 48 KB is opted into at the first launch that
                asks for it, which must come before a capture.

        Raises:
            TypeError: If an argument is a Python number, whose width the kernel could not know.
            CudaSetupError: If CuPy or NVRTC is missing.
        """
        values = tuple(self._value(arg) for arg in args)
        if _gathered is not None:
            _gathered.append(self.spec)
            return
        if shared_bytes > self._shared_bytes:
            self._function.max_dynamic_shared_size_bytes = shared_bytes
            self._shared_bytes = shared_bytes
        threads = (block,) if isinstance(block, int) else block
        stream = _external_stream(torch.cuda.current_stream().cuda_stream)
        self._function(grid, threads, values, shared_mem=shared_bytes, stream=stream)

    @functools.cached_property
    def _function(self) -> Any:
        return _module(self.spec).get_function(self.name)

    def _value(self, arg: Tensor | np.generic) -> np.generic:
        if isinstance(arg, Tensor):
            return np.uint64(arg.data_ptr())
        if isinstance(arg, np.generic):
            return arg
        raise TypeError(
            f"kernel {self.name} takes tensors and numpy scalars such as np.int32, but got "
            f"{arg!r} of type {type(arg).__name__}"
        )


@functools.cache
def load(name: str, defines: Defines = (), flags: tuple[str, ...] = ()) -> Kernel:
    """Returns the kernel of ``cuda/<name>.cu``, the same object for the same arguments.

    Args:
        name: The source file without its suffix.
        defines: Preprocessor definitions, in a fixed order.
        flags: Further compiler flags, such as ``--fmad=false``.
    """
    return Kernel(KernelSpec(name, defines, flags))


@contextmanager
def gathering() -> Iterator[None]:
    """Notes the kernels that a block launches, without running them, and compiles them all at its end.

    A cold start so compiles several at a time. torch's own operations in the block do run, on buffers
    that hold whatever they hold: use it before the first values are written.
    """
    global _gathered
    before, _gathered = _gathered, []
    try:
        yield
        wanted = _gathered
    finally:
        _gathered = before
    builder().build_all(wanted)


_gathered: list[KernelSpec] | None = None


@functools.cache
def builder() -> KernelBuilder:
    """Returns the compiler of this process, for the current device; ``builder().compiled`` counts."""
    major, minor = torch.cuda.get_device_capability()
    cuda = torch.version.cuda
    compiler = open_nvrtc(int(cuda.partition(".")[0]) if cuda else None)
    return KernelBuilder(f"sm_{major}{minor}", compiler, CubinCache())


def import_cupy() -> ModuleType:
    """Imports CuPy, which loads and launches kernels.

    Raises:
        CudaSetupError: In one sentence, where it is missing or broken.
    """
    try:
        import cupy
    except ImportError as error:
        if error.name == "cupy":
            raise CudaSetupError(f"the fused backend needs CuPy, which is not installed; {INSTALL}") from None
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CudaSetupError(
            f"CuPy cannot be imported ({reason}); foxtune doctor shows what to fix"
        ) from error
    return cupy  # type: ignore[no-any-return]


@functools.cache
def _module(spec: KernelSpec) -> Any:
    cupy = import_cupy()
    return cupy.RawModule(path=str(builder().build(spec)))


class _StreamAddress:
    """The stream protocol that CuPy 14 asks for: a version and the stream's address."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._pointer


@functools.cache
def _external_stream(pointer: int) -> Any:
    cuda = import_cupy().cuda
    if hasattr(cuda.Stream, "from_external"):
        return cuda.Stream.from_external(_StreamAddress(pointer))
    return cuda.ExternalStream(pointer)


def runtime_version() -> int:
    """Returns the CUDA version of the runtime library that CuPy uses, 1000 major + 10 minor.

    Raises:
        CudaSetupError: Where CuPy is missing or broken.
    """
    return int(import_cupy().cuda.runtime.runtimeGetVersion())
