"""What this machine has, for ``foxtune doctor``: versions against the ranges that the project needs."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.version import Version

OK, MISSING, WRONG, NOTE = "ok", "missing", "wrong", "note"
PACKAGES = ("torch", "ray", "optuna", "optuna-dashboard", "arch", "numpy", "pandas", "pyarrow", "pydantic")
CUPY_NAMES = ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")
LOWEST_PYTHON, FIRST_UNSUPPORTED_PYTHON = (3, 11), (3, 14)


@dataclass(frozen=True)
class Finding:
    """One line of the table.

    Attributes:
        part: What was looked at.
        found: Version or value.
        state: ``ok``, ``note`` (fine for the CPU), ``missing`` or ``wrong``.
        fix: What to type or change; empty where nothing is to do.
    """

    part: str
    found: str
    state: str
    fix: str = ""


def examine() -> list[Finding]:
    """Looks at the interpreter, the packages, CuPy, the driver and the visible GPUs."""
    findings = [python_finding(sys.version_info[:3])]
    findings += [package_finding(name, _version(name), _wanted(name)) for name in PACKAGES]
    driver = _driver()
    findings.append(
        Finding("NVIDIA driver", driver, OK) if driver else Finding("NVIDIA driver", "none", NOTE, CPU_ONLY)
    )
    findings.append(_torch_cuda(bool(driver)))
    findings.append(cupy_finding([(name, _version(name)) for name in CUPY_NAMES], bool(driver)))
    return findings


CPU_ONLY = "no GPU here: use --gpus-per-trial 0"


def verdict(findings: list[Finding]) -> tuple[str, bool]:
    """Returns one sentence, and whether foxtune can run at all."""
    broken = [finding for finding in findings if finding.state in (MISSING, WRONG)]
    if broken:
        return f"verdict: not usable until {broken[0].part} is mended: {broken[0].fix}", False
    if any(finding.state == NOTE for finding in findings):
        return "verdict: OK for the reference backend on the CPU (--gpus-per-trial 0)", True
    return "verdict: OK, CPU and GPU", True


def python_finding(version: tuple[int, ...]) -> Finding:
    """Holds an interpreter's version against the supported range."""
    text = ".".join(str(part) for part in version)
    if LOWEST_PYTHON <= version[:2] < FIRST_UNSUPPORTED_PYTHON:
        return Finding("Python", text, OK)
    return Finding("Python", text, WRONG, "use Python 3.11, 3.12 or 3.13: make clean demo PYTHON=python3.12")


def package_finding(name: str, version: str | None, wanted: Requirement | None) -> Finding:
    """Holds a package's version against the range that foxtune declares."""
    text = str(wanted.specifier) if wanted is not None else ""
    install = f'pip install "{name}{text}"'
    if version is None:
        return Finding(name, "none", MISSING, install)
    if wanted is not None and not wanted.specifier.contains(Version(version), prereleases=True):
        return Finding(name, version, WRONG, install)
    return Finding(name, version, OK)


def cupy_finding(installed: list[tuple[str, str | None]], driver: bool) -> Finding:
    """Judges CuPy: at most one package, and needed for the fused backend only."""
    present = [f"{name} {version}" for name, version in installed if version is not None]
    if len(present) > 1:
        names = " ".join(name for name, version in installed if version is not None)
        return Finding(
            "CuPy", " and ".join(present), WRONG, f"pip uninstall {names}, then install one of them"
        )
    if present:
        return Finding("CuPy", present[0], OK)
    return Finding("CuPy", "none", NOTE, 'pip install -e ".[cuda12]" for the GPU' if driver else CPU_ONLY)


def _torch_cuda(driver: bool) -> Finding:
    if _version("torch") is None:
        return Finding("CUDA in torch", "none", MISSING, 'pip install "torch"')
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    shown = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible!r})"
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        return Finding("CUDA in torch", f"{torch.version.cuda}: {', '.join(names)}{shown}", OK)
    built = f"built for {torch.version.cuda}" if torch.version.cuda else "CPU build"
    fix = "install a CUDA build of torch that fits the driver" if driver and visible is None else CPU_ONLY
    return Finding("CUDA in torch", f"{built}, 0 GPUs visible{shown}", NOTE, fix)


def _driver() -> str:
    """Returns the driver's version and the GPUs' names, or nothing."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    query = [tool, "--query-gpu=driver_version,name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""  # the tool without a working driver: the same as none
    return "; ".join(line.strip() for line in answer.stdout.splitlines() if line.strip())


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _wanted(name: str) -> Requirement | None:
    """The range that the installed foxtune declares; none where it runs from a folder."""
    try:
        declared = importlib.metadata.requires("foxtune") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [Requirement(text) for text in declared if "extra ==" not in text]
    return next((requirement for requirement in found if requirement.name == name), None)
