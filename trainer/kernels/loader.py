"""load: compiles one CUDA source with NVRTC through CuPy and launches it on torch's current stream."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainer.kernels.source import headers_digest, source_dir

DEFAULT_SHARED_BYTES = 48 * 1024  # what a block gets without asking


class Kernel:
    """One compiled entry point.

    Args:
        name: Of the entry point, for messages.
        function: The CuPy kernel.
    """

    def __init__(self, name: str, function: Any) -> None:
        self.name = name
        self._function = function
        self._shared_bytes = DEFAULT_SHARED_BYTES

    def launch(
        self,
        grid: tuple[int, ...],
        block: int | tuple[int, ...],
        *args: Tensor | np.generic,
        shared_bytes: int = 0,
    ) -> None:
        """Enqueues the kernel on torch's current stream; allocates nothing and waits for nothing.

        Args:
            grid: Blocks in x, y, z.
            block: Threads of a block.
            *args: Tensors are passed as addresses, numpy scalars by value.
            shared_bytes: Dynamic shared memory. More than 48 KB is opted into at the first launch that
                asks for it, which must come before a capture.

        Raises:
            TypeError: If an argument is a Python number, whose width the kernel could not know.
        """
        import cupy

        if shared_bytes > self._shared_bytes:
            self._function.max_dynamic_shared_size_bytes = shared_bytes
            self._shared_bytes = shared_bytes
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        threads = (block,) if isinstance(block, int) else block
        values = tuple(self._value(arg) for arg in args)
        self._function(grid, threads, values, shared_mem=shared_bytes, stream=stream)

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
def load(name: str, defines: tuple[tuple[str, int | str], ...] = (), entry: str | None = None) -> Kernel:
    """Compiles ``cuda/<name>.cu`` for the current device, once per combination of arguments.

    Args:
        name: The source file without its suffix.
        defines: Preprocessor definitions, in a fixed order.
        entry: The entry point; by default it is called like the file.
    """
    point = entry or name
    return Kernel(point, _module(name, defines).get_function(point))


@functools.cache
def _module(name: str, defines: tuple[tuple[str, int | str], ...]) -> Any:
    import cupy

    options = (
        "--std=c++17",
        f"-I{source_dir()}",
        f"-DHEADERS_DIGEST=0x{headers_digest()}",
        *(f"-D{key}={value}" for key, value in defines),
    )
    code = (source_dir() / f"{name}.cu").read_text(encoding="utf-8")
    return cupy.RawModule(code=code, options=options)
