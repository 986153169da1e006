"""What doctor says of versions; every input is made up, so the machine does not matter."""

import importlib.abc
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from hpo.machine import (
    MISSING,
    NOTE,
    OK,
    ONLY_FOR,
    PACKAGES,
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
    assert package_finding("ray", None, RAY) == Finding(
        "ray", "none", MISSING, 'pip install "ray[tune]<3,>=2.50"'
    )


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
        ("optuna", "every command that makes or reads a study"),
        ("optuna-dashboard", "foxtune tune, resume, report and dashboard"),
        ("plotly", "foxtune tune, resume and report"),
        ("psutil", "foxtune tune and resume"),
        ("rich", "foxtune tune and resume"),
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


WITHOUT = """
import sys
for name in sys.argv[2].split():
    sys.modules[name] = None  # importing it fails
from hpo.__main__ import main
sys.exit(main(["train", "--out", sys.argv[1], "--data", "synthetic:known_answer:400:1", *sys.argv[3:]]))
"""
SMALL = {
    "folds": 2, "min_folds": 1, "epochs": 1, "updates": 2, "episodes": 2, "episode_length": 8,
    "capacity": 64, "batch_size": 8, "trunk_widths": "8", "head_width": 4, "num_atoms": 5,
    "backend": "reference",
}  # fmt: skip


def train_without(packages, folder):
    """Runs ``foxtune train`` in a process that cannot import ``packages``."""
    modules = " ".join(package.replace("-", "_") for package in packages)
    keys = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, str(folder), modules, *keys],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_training_runs_to_its_end_without_the_packages_that_only_others_need(tmp_path):
    done = train_without(ONLY_FOR, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "wf_sharpe" in done.stdout


@pytest.mark.parametrize("package", ["arch", "scipy"])
def test_a_training_does_not_end_without_the_packages_that_stop_it(package, tmp_path):
    done = train_without([package], tmp_path)
    assert done.returncode == 1
    assert re.search(rf"(ModuleNotFound|Import)Error: .*\b{package}\b", done.stderr)
    assert not verdict([Finding(package, "none", MISSING, "pip install it")])[1]


@pytest.mark.parametrize("package", ["optuna_dashboard", "plotly"])
def test_the_end_of_a_search_and_its_report_need_the_dashboards_packages(package):
    line = (
        f"import sys; sys.modules[{package!r}] = None; from hpo.dashboard.figures import publish; publish(0)"
    )
    done = subprocess.run([sys.executable, "-c", line], cwd=ROOT, capture_output=True, text=True, check=False)
    assert re.search(rf"Error: .*\b{package}\b", done.stderr)


def test_every_declared_package_is_examined():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {Requirement(text).name for text in project["dependencies"]}
    assert set(PACKAGES) == declared - {"packaging"}
    assert set(ONLY_FOR) < set(PACKAGES)


@pytest.mark.parametrize("error", [ImportError("libtorch.so: no such file\nmore"), OSError("libcublas.so")])
def test_a_torch_that_cannot_be_imported_is_a_finding_and_no_traceback(monkeypatch, error):
    class Broken(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name == "trainer.cuda_stack":
                raise error
            return

    monkeypatch.delitem(sys.modules, "trainer.cuda_stack", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    found = examine()
    assert found[-1].part == "import of torch"
    assert found[-1].found == str(error).partition("\n")[0]
    text, usable = verdict(found)
    assert not usable
    assert "not usable until import of torch is mended: pip install --force-reinstall torch" in text


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
