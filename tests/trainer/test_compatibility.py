"""What the CUDA software of a machine is judged to be, from versions alone."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from trainer.compatibility import (
    CUDA_MAJORS,
    NOTE,
    OK,
    WARN,
    WRONG,
    CudaStack,
    architecture_finding,
    breakage,
    cuda_path_findings,
    cupy_finding,
    driver_finding,
    judge,
    obstacle,
    runtime_finding,
    torch_finding,
)

HOPPER = CudaStack(
    driver=(13, 0),
    gpu="NVIDIA H200",
    architecture=(9, 0),
    torch_cuda=(13, 0),
    torch_architectures=(75, 80, 86, 90, 100, 120),
    nvrtc=(13, 0),
    nvrtc_architectures=(75, 80, 86, 89, 90, 100, 120),
    cupy=(("cupy-cuda13x", "14.2.0"),),
    runtime=(13, 0),
)


def test_a_machine_where_all_fits_has_no_obstacle_and_no_fix():
    assert {(finding.state, finding.fix) for finding in judge(HOPPER)} == {(OK, "")}
    assert obstacle(HOPPER) == ""


def test_a_machine_without_any_of_it_is_fine_for_the_cpu():
    assert {finding.state for finding in judge(CudaStack())} == {NOTE}
    assert obstacle(CudaStack()) == "NVIDIA driver none; no GPU here: use --gpus-per-trial 0"


def test_a_driver_of_the_same_major_version_works_and_the_fix_names_the_newer_one():
    older = replace(HOPPER, driver=(12, 7), runtime=(12, 9), nvrtc=(12, 6), torch_cuda=(12, 6))
    found = driver_finding(older)
    assert (found.found, found.state) == ("CUDA 12.7", WARN)
    assert found.fix == (
        "works within CUDA 12; better update the driver to one for CUDA 12.9 or newer (runtime 12.9)"
    )
    assert obstacle(older) == ""


def test_a_driver_of_an_older_major_version_is_wrong_with_both_ways_out():
    found = driver_finding(replace(HOPPER, driver=(12, 7)))
    assert (found.found, found.state) == ("CUDA 12.7", WRONG)
    assert "update the driver to one for CUDA 13.0 or newer" in found.fix
    assert "install foxtune[cuda12] and a torch for CUDA 12" in found.fix


def test_a_driver_before_every_extra_of_foxtune_can_only_be_updated():
    old = replace(HOPPER, driver=(11, 8), runtime=(12, 9), nvrtc=(12, 9), torch_cuda=(12, 6))
    found = driver_finding(old)
    assert (found.found, found.state) == ("CUDA 11.8", WRONG)
    assert found.fix == "update the driver to one for CUDA 12.9 or newer (runtime 12.9)"


def test_every_extra_that_a_fix_may_name_is_one_of_foxtune():
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extras = set(declared["project"]["optional-dependencies"])
    assert {f"cuda{major}" for major in CUDA_MAJORS} <= extras
    stacks = [
        replace(HOPPER, driver=driver, torch_cuda=torch_cuda)
        for driver in (None, (11, 8), (12, 4), (13, 0), (14, 1))
        for torch_cuda in (None, (11, 8), (12, 6), (13, 0))
    ]
    assert {stack.extra for stack in stacks} <= extras


def test_a_gpu_before_sm_80_is_left_to_the_reference():
    found = architecture_finding(replace(HOPPER, gpu="NVIDIA GTX 1080", architecture=(6, 1)))
    assert (found.found, found.state) == ("NVIDIA GTX 1080, sm_61", NOTE)
    assert "needs sm_80 or newer, and CUDA 13 no longer compiles for it: use --backend reference" in found.fix
    turing = architecture_finding(replace(HOPPER, architecture=(7, 5)))
    assert turing.fix == "the fused backend needs sm_80 or newer: use --backend reference"


def test_a_gpu_newer_than_the_compiler_asks_for_a_newer_compiler():
    found = architecture_finding(replace(HOPPER, architecture=(13, 0)))
    assert found.state == WRONG
    assert found.fix.startswith("NVRTC 13.0 compiles up to sm_120: pip install --upgrade")


def test_a_gpu_newer_than_torch_asks_for_a_newer_torch():
    assert torch_finding(replace(HOPPER, architecture=(13, 0))).fix.endswith("pip install --upgrade torch")
    assert torch_finding(replace(HOPPER, architecture=(8, 9))).state == OK


def test_hidden_gpus_name_the_variable_and_its_value():
    found = architecture_finding(replace(HOPPER, architecture=None, gpu=None, visible=""))
    assert found.found == "0 GPUs visible (CUDA_VISIBLE_DEVICES='')"
    assert found.fix.startswith("unset CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("change", "state", "fix"),
    [
        ({"driver": (12, 7)}, WRONG, "mend the driver first"),
        ({"torch_cuda": None}, NOTE, "needs a CUDA build of torch"),
        ({}, WRONG, "torch.cuda.init()"),
    ],
)
def test_a_gpu_that_only_the_driver_sees_is_not_called_absent(change, state, fix):
    blind = replace(HOPPER, gpu=None, architecture=None, devices=2, **change)
    found = architecture_finding(blind)
    assert (found.found, found.state) == ("2 seen by the driver, 0 by torch", state)
    assert fix in found.fix


def test_the_first_thing_said_of_an_old_driver_is_the_driver():
    blind = replace(HOPPER, gpu=None, architecture=None, devices=1, driver=(12, 7))
    assert obstacle(blind).startswith("NVIDIA driver CUDA 12.7; update the driver to one for CUDA 13.0")
    assert breakage(blind) == obstacle(blind)


def test_a_newer_compiler_is_asked_for_within_the_cuda_of_torch():
    older = replace(HOPPER, torch_cuda=(12, 6), nvrtc=(12, 6), runtime=(12, 6), architecture=(12, 0))
    found = architecture_finding(replace(older, nvrtc_architectures=(75, 80, 90)))
    assert found.fix.endswith('pip install --upgrade "foxtune[cuda12]"')


def test_a_cpu_build_of_torch_beside_a_driver_is_told_how_to_change():
    found = torch_finding(replace(HOPPER, torch_cuda=None))
    assert (found.state, found.found) == (NOTE, "CPU build")
    assert "pip uninstall -y torch && pip install torch" in found.fix


@pytest.mark.parametrize(("torch_cuda", "extra"), [((12, 6), "cuda12"), ((13, 0), "cuda13")])
def test_two_cupy_packages_are_refused_with_the_line_that_removes_them(torch_cuda, extra):
    both = (("cupy-cuda12x", "13.4.1"), ("cupy-cuda13x", "14.2.0"))
    found = cupy_finding(replace(HOPPER, cupy=both, torch_cuda=torch_cuda))
    assert (found.found, found.state) == ("cupy-cuda12x 13.4.1 and cupy-cuda13x 14.2.0", WRONG)
    assert found.fix == f'pip uninstall cupy-cuda12x cupy-cuda13x, then pip install -e ".[{extra}]"'
    assert "cupy-cuda12x 13.4.1 and cupy-cuda13x 14.2.0; pip uninstall" in obstacle(
        replace(HOPPER, cupy=both)
    )


def test_no_cupy_names_the_extra_beside_a_driver_and_nothing_to_do_without_one():
    assert cupy_finding(replace(HOPPER, cupy=())).fix == 'pip install -e ".[cuda13]" for the GPU'
    assert cupy_finding(CudaStack()).fix == "no GPU here: use --gpus-per-trial 0"
    assert obstacle(replace(HOPPER, cupy=())).startswith("CuPy none; pip install")


def test_a_cupy_that_cannot_be_imported_says_why():
    found = cupy_finding(replace(HOPPER, cupy_error="libcudart.so.13 is missing"))
    assert (found.found, found.state) == ("cupy-cuda13x 14.2.0: libcudart.so.13 is missing", WRONG)


def test_a_runtime_of_another_major_version_than_torch_works_but_is_named():
    found = runtime_finding(replace(HOPPER, runtime=(12, 9)))
    assert (found.state, found.fix) == (
        WARN,
        "CuPy is for CUDA 12, torch for 13: better install foxtune[cuda13]",
    )


def test_cuda_path_is_shown_with_both_versions_and_stops_nothing():
    assert cuda_path_findings(HOPPER) == ()
    [empty] = cuda_path_findings(replace(HOPPER, cuda_path="/empty"))
    assert (empty.found, empty.state) == ("no cuda.h in /empty", WARN)
    [other] = cuda_path_findings(replace(HOPPER, cuda_path="/cuda", cuda_path_version=(12, 0)))
    assert "headers 12.0, NVRTC 13.0" in other.fix
    [same] = cuda_path_findings(replace(HOPPER, cuda_path="/cuda", cuda_path_version=(13, 0)))
    assert (same.found, same.state) == ("13.0 in /cuda", OK)
    assert obstacle(replace(HOPPER, cuda_path="/empty")) == ""
