"""What a trial's process needs besides the training: its log file, its GPU, its name and versions."""

from __future__ import annotations

import logging
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import TextIO

import ray

from hpo.gpus.resources import VISIBLE
from hpo.study.attributes import Machine

PACKAGES = ("foxtune", "torch", "numpy", "ray", "optuna", "cupy-cuda12x", "cupy-cuda13x")


class TrialLog:
    """Sends everything that this process prints or logs to one file, C libraries included.

    Ray reuses a process for many trials, so the file changes: :meth:`open` closes the last one.
    """

    def __init__(self) -> None:
        self._file: TextIO | None = None
        self._handler: logging.Handler | None = None

    def open(self, path: Path) -> None:
        """Appends to ``path`` from now on."""
        self.close()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", buffering=1, encoding="utf-8", errors="backslashreplace")
        for descriptor in (1, 2):
            os.dup2(self._file.fileno(), descriptor)
        sys.stdout = sys.stderr = self._file
        self._handler = logging.StreamHandler(self._file)
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        root = logging.getLogger()
        root.addHandler(self._handler)
        root.setLevel(logging.INFO)

    def close(self) -> None:
        """Flushes and lets go of the file; later output of the process is not kept."""
        if self._file is None or self._handler is None:
            return
        logging.getLogger().removeHandler(self._handler)
        self._file.flush()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
        os.close(nowhere)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        self._file.close()
        self._file = self._handler = None


def hide_gpus() -> None:
    """Hides every GPU from this process; must run before CUDA is first touched.

    Ray leaves the driver's list in place for a task that asked for no GPU.
    """
    os.environ[VISIBLE] = ""


def describe_machine() -> Machine:
    """Names host, GPU and versions of this process. Reads the GPU only where torch already uses it."""
    versions = [("python", platform.python_version())]
    for package in PACKAGES:
        try:
            versions.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            continue
    return Machine(platform.node(), _gpu(), tuple(versions))


def _gpu() -> str:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return "none"
    properties = torch.cuda.get_device_properties(0)
    assigned = ", ".join(str(each) for each in ray.get_gpu_ids()) if ray.is_initialized() else ""
    uuid = getattr(properties, "uuid", assigned)
    return f"{properties.name} GPU-{uuid}" if uuid else str(properties.name)
