"""KernelBuilder: CUDA sources to machine code through NVRTC, at most once per source, options and GPU."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from trainer.kernels.cubin_cache import CubinCache
from trainer.kernels.nvrtc import Nvrtc
from trainer.kernels.source import headers_digest, source_dir

Defines = tuple[tuple[str, int | str], ...]
MOST_THREADS = 8  # compilers at a time; each takes some 100 MB


@dataclass(frozen=True)
class KernelSpec:
    """One translation unit to compile.

    Attributes:
        name: The source file without its suffix.
        defines: Preprocessor definitions, in a fixed order.
        flags: Further compiler flags, such as ``--fmad=false``.
    """

    name: str
    defines: Defines = ()
    flags: tuple[str, ...] = ()

    def source(self) -> str:
        """Returns the text of ``cuda/<name>.cu``."""
        return (source_dir() / f"{self.name}.cu").read_text(encoding="utf-8")

    def options(self, architecture: str) -> tuple[str, ...]:
        """Returns the compiler's options.

        Denormal numbers are kept (NVRTC's own default), because the reference keeps them.

        Args:
            architecture: Such as ``sm_90``.
        """
        return (
            "--std=c++17",
            "--device-as-default-execution-space",
            f"--gpu-architecture={architecture}",
            f"-I{source_dir()}",
            *self.flags,
            *(f"-D{key}={value}" for key, value in self.defines),
        )

    def key(self, architecture: str, compiler: tuple[int, int]) -> str:
        """Returns the name of the compiled file: a digest of everything that its content depends on.

        Args:
            architecture: Such as ``sm_90``.
            compiler: CUDA version of NVRTC.
        """
        parts = (
            self.name,
            architecture,
            f"{compiler[0]}.{compiler[1]}",
            self.source(),
            headers_digest(),
            *self.flags,
            *(f"{key}={value}" for key, value in self.defines),
        )
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
        return f"{self.name}-{architecture}-{digest}"


class KernelBuilder:
    """Finds kernels in the cache, or compiles and keeps them.

    Args:
        architecture: Such as ``sm_90``.
        compiler: NVRTC.
        cache: Where compiled kernels are kept.
    """

    def __init__(self, architecture: str, compiler: Nvrtc, cache: CubinCache) -> None:
        self.architecture = architecture
        self._compiled: list[KernelSpec] = []
        self._compiler = compiler
        self._cache = cache
        self.build = functools.cache(self._build)

    @property
    def compiled(self) -> int:
        """How many kernels were compiled; 0 where the cache held all of them."""
        return len(self._compiled)

    def build_all(self, specs: Iterable[KernelSpec]) -> None:
        """Compiles what the cache lacks, several at a time."""
        with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as threads:
            list(threads.map(self.build, dict.fromkeys(specs)))

    def _build(self, spec: KernelSpec) -> Path:
        key = spec.key(self.architecture, self._compiler.version)
        found = self._cache.find(key)
        if found is not None:
            return found
        result = self._compiler.compile(spec.source(), f"{spec.name}.cu", spec.options(self.architecture))
        self._compiled.append(spec)
        return self._cache.store(key, result.cubin)
