"""What doctor says of versions; every input is made up, so the machine does not matter."""

import pytest
from packaging.requirements import Requirement

from hpo.machine import (
    MISSING,
    NOTE,
    OK,
    WRONG,
    Finding,
    cupy_finding,
    examine,
    package_finding,
    python_finding,
    verdict,
)

RAY = Requirement("ray[tune]>=2.50,<3")


@pytest.mark.parametrize(
    ("version", "state"),
    [((3, 10, 14), WRONG), ((3, 11, 0), OK), ((3, 12, 7), OK), ((3, 13, 1), OK), ((3, 14, 0), WRONG)],
)
def test_python_is_held_against_the_supported_range(version, state):
    assert python_finding(version).state == state


def test_a_wrong_python_names_what_to_type():
    assert "PYTHON=python3.12" in python_finding((3, 14, 0)).fix


def test_a_missing_package_names_the_install_command_with_its_range():
    assert package_finding("ray", None, RAY) == Finding("ray", "none", MISSING, 'pip install "ray<3,>=2.50"')


@pytest.mark.parametrize(("version", "state"), [("2.49.1", WRONG), ("2.60.0", OK), ("3.0", WRONG)])
def test_a_package_is_held_against_the_declared_range(version, state):
    assert package_finding("ray", version, RAY).state == state


def test_a_local_version_tag_is_no_fault():
    assert package_finding("torch", "2.13.0+cpu", Requirement("torch>=2.6")).state == OK


def test_two_cupy_packages_are_refused_with_the_line_that_removes_them():
    found = cupy_finding([("cupy", None), ("cupy-cuda12x", "13.4"), ("cupy-cuda13x", "13.6")], driver=True)
    assert found.state == WRONG
    assert found.found == "cupy-cuda12x 13.4 and cupy-cuda13x 13.6"
    assert found.fix.startswith("pip uninstall cupy-cuda12x cupy-cuda13x")


def test_no_cupy_is_no_fault_without_a_driver():
    assert cupy_finding([("cupy", None)], driver=False).state == NOTE


def test_the_verdict_names_the_first_thing_to_mend():
    broken = [Finding("a", "1", OK), Finding("b", "none", MISSING, "pip install b"), Finding("c", "", WRONG)]
    assert verdict(broken) == ("verdict: not usable until b is mended: pip install b", False)


def test_a_machine_without_a_gpu_is_usable():
    text, usable = verdict([Finding("a", "1", OK), Finding("NVIDIA driver", "none", NOTE)])
    assert usable
    assert "on the CPU" in text


def test_this_machine_is_examined_from_python_to_cupy():
    parts = [finding.part for finding in examine()]
    assert parts[0] == "Python"
    assert parts[-3:] == ["NVIDIA driver", "CUDA in torch", "CuPy"]
