"""What a measurement was taken on: processor, GPU, driver, versions, date, commit."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
PROCESSORS = Path("/proc/cpuinfo")
DRIVER = Path("/proc/driver/nvidia/version")
PACKAGES = ("foxtune", "torch", "numpy", "cupy-cuda12x", "cupy-cuda13x", "jax")


def describe() -> str:
    """Returns lines of Markdown for the head of the tables."""
    found = [f"{name} {version}" for name in PACKAGES if (version := _version(name))]
    lines = [
        f"date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d}{_commit()}",
        f"processor: {_processor()}, {os.cpu_count()} cores",
        f"versions: {', '.join([f'Python {platform.python_version()}', *found])}",
    ]
    if torch.cuda.is_available():
        gpu = torch.cuda.get_device_properties(0)
        lines.append(
            f"GPU: {gpu.name}, {gpu.total_memory / 2**30:.0f} GiB, {gpu.multi_processor_count} processors, "
            f"driver {_driver()}, CUDA {torch.version.cuda}"
        )
    return "\n".join(f"- {line}" for line in lines)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    """The commit of the checkout that runs, marked where files differ from it; nothing elsewhere."""
    if not (ROOT / ".git").exists():
        return ""
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude=*"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""  # no git, or not a checkout that it accepts
    return f", commit {told.stdout.strip()}"


def _processor() -> str:
    if PROCESSORS.exists():
        for line in PROCESSORS.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _driver() -> str:
    """The driver's version, without the libraries that would start it."""
    try:
        told = DRIVER.read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    words = told.partition("Module")[2].split()
    return next((word for word in words if word[0].isdigit()), "unknown")
