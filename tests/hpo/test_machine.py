"""What doctor says of versions; every input is made up, so the machine does not matter."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from hpo.machine import (
    MISSING,
    NOTE,
    OK,
    WARN,
    WRONG,
    Finding,
    examine,
    package_finding,
    python_finding,
    verdict,
)
from trainer.compatibility import CudaStack

ROOT = Path(__file__).parents[2]
RAY = Requirement("ray[tune]>=2.50,<3")


@pytest.mark.parametrize(
    ("version", "state"),
    [((3, 10, 14), WRONG), ((3, 11, 0), OK), ((3, 12, 7), OK), ((3, 13, 1), OK), ((3, 14, 0), WRONG)],
)
def test_python_is_held_against_the_supported_range(version, state):
    assert python_finding(version).state == state


def test_the_range_of_python_that_is_checked_is_the_one_that_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = SpecifierSet(project["requires-python"])
    supported = {minor for minor in range(8, 20) if python_finding((3, minor, 1)).state == OK}
    assert {minor for minor in range(8, 20) if declared.contains(f"3.{minor}.1")} == supported == {11, 12, 13}


def test_a_wrong_python_names_what_to_type():
    assert "PYTHON=python3.12" in python_finding((3, 14, 0)).fix


def test_a_missing_package_names_the_install_command_with_its_range():
    assert package_finding("ray", None, RAY) == Finding("ray", "none", MISSING, 'pip install "ray<3,>=2.50"')


@pytest.mark.parametrize(("version", "state"), [("2.49.1", WRONG), ("2.60.0", OK), ("3.0", WRONG)])
def test_a_package_is_held_against_the_declared_range(version, state):
    assert package_finding("ray", version, RAY).state == state


def test_a_local_version_tag_is_no_fault():
    assert package_finding("torch", "2.13.0+cpu", Requirement("torch>=2.6")).state == OK


def test_the_verdict_names_the_first_thing_to_mend():
    broken = [Finding("a", "1", OK), Finding("b", "none", MISSING, "pip install b"), Finding("c", "", WRONG)]
    assert verdict(broken) == ("verdict: not usable until b is mended: pip install b", False)


@pytest.mark.parametrize(
    ("part", "command"),
    [
        ("ray", "foxtune tune and resume"),
        ("optuna", "searches and their reports"),
        ("optuna-dashboard", "foxtune dashboard"),
        ("arch", "sp500, nasdaq and foxtune report"),
    ],
)
@pytest.mark.parametrize("state", [MISSING, WRONG])
def test_a_package_that_training_does_without_stops_only_what_needs_it(part, command, state):
    text, usable = verdict([Finding("torch", "2", OK), Finding(part, "none", state, f"pip install {part}")])
    assert usable
    assert text == f"verdict: OK, CPU and GPU; {command} not before pip install {part}"


def test_a_package_that_training_needs_is_named_before_one_that_it_does_without():
    broken = [Finding("ray", "none", MISSING, "install ray"), Finding("torch", "none", MISSING, "get torch")]
    assert verdict(broken) == ("verdict: not usable until torch is mended: get torch", False)


def test_a_machine_without_a_gpu_is_usable():
    text, usable = verdict([Finding("a", "1", OK), Finding("NVIDIA driver", "none", NOTE, "do this")])
    assert usable
    assert text == "verdict: OK for the reference backend on the CPU; NVIDIA driver none; do this"


def test_a_reservation_is_named_but_stops_nothing():
    text, usable = verdict([Finding("NVIDIA driver", "CUDA 12.7", WARN, "update"), Finding("b", "1", OK)])
    assert usable
    assert text == "verdict: OK, CPU and GPU; better look at NVIDIA driver"


def test_this_machine_is_examined_from_python_to_the_cuda_runtime(monkeypatch):
    monkeypatch.delenv("CUDA_PATH", raising=False)
    parts = [finding.part for finding in examine()]
    assert parts[0] == "Python"
    assert parts[-6:] == ["NVIDIA driver", "CUDA in torch", "GPU", "NVRTC", "CuPy", "CUDA runtime"]


def test_old_versions_give_one_verdict_with_one_fix(monkeypatch):
    old = CudaStack(driver=(12, 7), torch_cuda=(13, 0), architecture=(9, 0), gpu="X", nvrtc=(13, 0))
    monkeypatch.setattr("trainer.cuda_stack.read_stack", lambda: old)
    text, usable = verdict(examine())
    assert not usable
    assert text.startswith("verdict: not usable until NVIDIA driver is mended: update the driver")
