"""Reads which CUDA software a machine has. Each part may be absent; nothing here fails because of that."""

from __future__ import annotations

import importlib.metadata
import os
import re
import warnings
from pathlib import Path

import torch

from trainer.compatibility import CudaStack, Version2, split_version
from trainer.cuda_driver import driver_devices, driver_version
from trainer.errors import CudaSetupError
from trainer.kernels.loader import runtime_version
from trainer.kernels.nvrtc import Nvrtc, open_nvrtc

CUPY_NAME = re.compile(r"cupy(-cuda\d+x?|-rocm-.*)?")
HEADER_VERSION = re.compile(r"#define\s+CUDA_VERSION\s+(\d+)")


def read_stack() -> CudaStack:
    """Looks at driver, GPU, torch, NVRTC, CuPy and CUDA_PATH."""
    cupy = installed_cupy()
    runtime, error = _runtime() if len(cupy) == 1 else (None, "")
    torch_cuda = _version(torch.version.cuda)
    compiler = _compiler(torch_cuda)
    available = _torch_sees_a_gpu()
    path = os.environ.get("CUDA_PATH")
    return CudaStack(
        driver=driver_version(),
        gpu=torch.cuda.get_device_name(0) if available else None,
        devices=driver_devices(),
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        architecture=torch.cuda.get_device_capability(0) if available else None,
        torch_cuda=torch_cuda,
        torch_architectures=_torch_architectures(),
        nvrtc=compiler.version if compiler is not None else None,
        nvrtc_architectures=compiler.architectures if compiler is not None else (),
        cupy=cupy,
        runtime=runtime,
        cupy_error=error,
        cuda_path=path,
        cuda_path_version=header_version(Path(path)) if path else None,
    )


def installed_cupy() -> tuple[tuple[str, str], ...]:
    """Returns (distribution, version) of every CuPy that pip knows of, sorted."""
    found = {
        (name.lower(), distribution.version)
        for distribution in importlib.metadata.distributions()
        if (name := distribution.metadata["Name"]) and CUPY_NAME.fullmatch(name.lower())
    }
    return tuple(sorted(found))


def header_version(cuda_path: Path) -> Version2 | None:
    """Returns the CUDA version of ``include/cuda.h``; None where there is no such file."""
    try:
        text = (cuda_path / "include" / "cuda.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = HEADER_VERSION.search(text)
    return split_version(int(match[1])) if match else None


def _torch_sees_a_gpu() -> bool:
    with warnings.catch_warnings():
        # Beside a driver that is too old torch warns at length; the finding says it in one line.
        warnings.simplefilter("ignore", UserWarning)
        return torch.cuda.is_available()


def _runtime() -> tuple[Version2 | None, str]:
    try:
        return split_version(runtime_version()), ""
    except CudaSetupError as error:
        return None, str(error)


def _compiler(torch_cuda: Version2 | None) -> Nvrtc | None:
    try:
        return open_nvrtc(torch_cuda[0] if torch_cuda else None)
    except CudaSetupError:
        return None


def _torch_architectures() -> tuple[int, ...]:
    numbers = (re.fullmatch(r"(?:sm|compute)_(\d+)a?", name) for name in torch.cuda.get_arch_list())
    return tuple(sorted({int(match[1]) for match in numbers if match}))


def _version(text: str | None) -> Version2 | None:
    match = re.match(r"(\d+)\.(\d+)", text or "")
    return (int(match[1]), int(match[2])) if match else None
