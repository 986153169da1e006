"""What this machine has, for ``foxtune doctor``: versions against the ranges that the project needs."""

from __future__ import annotations

import importlib.metadata
import sys

from packaging.requirements import Requirement
from packaging.version import Version

from trainer.compatibility import MISSING, NOTE, OK, WARN, WRONG, Finding, judge

PACKAGES = (  # all that foxtune declares but packaging, which this module itself is made with
    *("torch", "ray", "optuna", "optuna-dashboard", "arch", "numpy", "pandas", "pyarrow", "scipy", "plotly"),
    *("pydantic", "psutil", "rich", "sqlalchemy"),
)
ONLY_FOR = {  # what needs a package that a training does without
    "ray": "foxtune tune and resume",
    "optuna": "every command that makes or reads a study",
    "optuna-dashboard": "foxtune tune, resume, report and dashboard",
    "plotly": "foxtune tune, resume and report",
    "psutil": "foxtune tune and resume",
    "rich": "foxtune tune and resume",
}
LOWEST_PYTHON, FIRST_UNSUPPORTED_PYTHON = (3, 11), (3, 14)


def examine() -> list[Finding]:
    """Looks at the interpreter, the packages, and the CUDA software from the driver to CuPy."""
    findings = [python_finding(sys.version_info[:3])]
    findings += [package_finding(name, _version(name), _wanted(name)) for name in PACKAGES]
    if _version("torch") is not None:
        findings += cuda_findings()
    return findings


def cuda_findings() -> tuple[Finding, ...]:
    """Judges the CUDA software through torch; a torch that is installed but broken is the one finding."""
    try:
        from trainer.cuda_stack import read_stack
    except (ImportError, OSError) as error:  # OSError: a shared library of torch that cannot be loaded
        reason = str(error).partition("\n")[0]
        fix = "pip install --force-reinstall torch, and see python -c 'import torch'"
        return (Finding("import of torch", reason, WRONG, fix),)
    return judge(read_stack())


def verdict(findings: list[Finding]) -> tuple[str, bool]:
    """Returns one sentence, and whether everything that a training needs is there."""
    broken = [finding for finding in findings if finding.state in (MISSING, WRONG)]
    stopping = [finding for finding in broken if finding.part not in ONLY_FOR]
    if stopping:
        return f"verdict: not usable until {stopping[0].part} is mended: {stopping[0].fix}", False
    missed = "".join(f"; {ONLY_FOR[each.part]} not before {each.fix}" for each in broken)
    return f"{_works_on(findings)}{missed}", True


def _works_on(findings: list[Finding]) -> str:
    absent = [finding for finding in findings if finding.state == NOTE]
    if absent:
        why = f"{absent[0].part} {absent[0].found}; {absent[0].fix}"
        return f"verdict: OK for the reference backend on the CPU; {why}"
    doubtful = [finding.part for finding in findings if finding.state == WARN]
    better = f"; better look at {', '.join(doubtful)}" if doubtful else ""
    return f"verdict: OK, CPU and GPU{better}"


def python_finding(version: tuple[int, ...]) -> Finding:
    """Holds an interpreter's version against the supported range."""
    text = ".".join(str(part) for part in version)
    if LOWEST_PYTHON <= version[:2] < FIRST_UNSUPPORTED_PYTHON:
        return Finding("Python", text, OK)
    return Finding("Python", text, WRONG, "use Python 3.11, 3.12 or 3.13: make clean demo PYTHON=python3.12")


def package_finding(name: str, version: str | None, wanted: Requirement | None) -> Finding:
    """Holds a package's version against the range that foxtune declares."""
    install = f'pip install "{name if wanted is None else wanted}"'  # with its extras, as ray[tune]
    if version is None:
        return Finding(name, "none", MISSING, install)
    if wanted is not None and not wanted.specifier.contains(Version(version), prereleases=True):
        return Finding(name, version, WRONG, install)
    return Finding(name, version, OK)


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
