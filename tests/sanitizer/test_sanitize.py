"""What .ci/sanitize makes of the tools' words; compute-sanitizer and the interpreter have stand-ins."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "sanitize"
RAN = "11 configurations, 19 kernels, 400 launches"
CLEAN = "========= ERROR SUMMARY: 0 errors"
FAULT = """========= Invalid __global__ write of size 4 bytes
=========     at planted+0x90
=========     by thread (0,0,0) in block (0,0,0)
========= ERROR SUMMARY: 1 error"""
FOREIGN = """========= Uninitialized __global__ memory read of size 4 bytes
=========     at void at::native::elementwise_kernel<(int)128>(int)+0x60
========= ERROR SUMMARY: 1 error"""
HAZARD = """========= Error: Race reported between Write access at gradient_norm+0x90
=========     and Read access at gradient_norm+0xb0 [4 hazards]
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"""
STAND_IN = """#!/usr/bin/env bash
if [ "$1" = --help ]; then echo "  --kernel-name arg"; exit; fi
echo "$@" >>"$CALLS"
while [ $# -gt 0 ]; do
  if [ "$1" = --log-file ]; then cp "$SAID" "$2"; fi
  shift
done
echo "$RAN"
exit "$STATUS"
"""


@pytest.fixture
def sanitize(tmp_path):
    """Runs the script; returns the exit status, its lines and the calls of the tool."""

    def run(*arguments, said, ran=RAN, status=0):
        for name, text in (("compute-sanitizer", STAND_IN), ("python", "#!/bin/sh\necho compiled 0\n")):
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        (tmp_path / "said").write_text(f"{said}\n")
        environment = {
            **os.environ,
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "PYTHON": str(tmp_path / "python"),
            "LOGS": str(tmp_path / "logs"),
            "CALLS": str(tmp_path / "calls"),
            "SAID": str(tmp_path / "said"),
            "RAN": ran,
            "STATUS": str(status),
        }
        done = subprocess.run(
            [str(SCRIPT), *arguments], env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout.splitlines(), (tmp_path / "calls").read_text().splitlines()

    return run


def test_clean_tools_give_a_line_each_with_configurations_launches_errors_and_seconds(sanitize):
    status, lines, calls = sanitize(said=CLEAN)
    assert status == 0
    assert [line.rpartition(",")[0] for line in lines[:4]] == [
        f"{tool}: {RAN}, 0 errors" for tool in ("memcheck", "racecheck", "initcheck", "synccheck")
    ]
    assert len(calls) == 4


def test_the_filter_names_every_kernel_whole_except_for_initcheck_which_must_see_all_writers(sanitize):
    _, _, calls = sanitize("memcheck", "initcheck", said=CLEAN)
    names = {path.stem for path in (SCRIPT.parents[1] / "cuda").glob("*.cu")} | {"planted"}
    words = calls[0].split()
    assert {word.partition("=")[2] for word in words if word.startswith("kernel_name=")} == names
    assert "kernel_name" not in calls[1]


def test_only_racecheck_runs_without_the_matrix_kernels_of_the_libraries(sanitize):
    _, _, calls = sanitize("memcheck", "racecheck", said=CLEAN)
    assert ["--plain-products" in call for call in calls] == [False, True]


def test_an_error_fails_and_shows_the_report(sanitize):
    status, lines, _ = sanitize("memcheck", said=FAULT, status=86)
    assert status == 1
    assert lines[0].startswith(f"memcheck: {RAN}, 1 errors")


def test_a_hazard_fails(sanitize):
    status, lines, _ = sanitize("racecheck", said=HAZARD, status=86)
    assert status == 1
    assert lines[0].startswith(f"racecheck: {RAN}, 1 errors")


def test_what_initcheck_says_of_other_kernels_does_not_count(sanitize):
    status, lines, _ = sanitize("initcheck", said=FOREIGN, status=86)
    assert status == 0
    assert lines[0].startswith(f"initcheck: {RAN}, 0 errors")


def test_what_initcheck_says_of_our_kernels_counts(sanitize):
    status, lines, _ = sanitize(
        "initcheck", said=FOREIGN.replace("void at::native::el", "relu+0x10 "), status=86
    )
    assert status == 1
    assert lines[0].startswith(f"initcheck: {RAN}, 1 errors")


@pytest.mark.parametrize(
    ("said", "ran", "code"),
    [("Device not supported", RAN, 0), (CLEAN, "Traceback", 1), (CLEAN, "", 0), (CLEAN, RAN, 1)],
)
def test_a_tool_or_a_program_that_did_not_get_to_its_end_fails(sanitize, said, ran, code):
    status, lines, _ = sanitize("memcheck", said=said, ran=ran, status=code)
    assert status == 1
    assert not lines[0].startswith(f"memcheck: {RAN}, 0 errors") or code == 1


def test_a_planted_fault_that_is_found_passes_and_one_that_is_not_fails(sanitize):
    status, lines, calls = sanitize("--plant", "memcheck", said=FAULT, status=86)
    assert (status, lines[0].rpartition(",")[0]) == (0, "memcheck: the planted fault was found")
    assert calls[0].endswith("small_run.py --plant memcheck")
    status, lines, _ = sanitize("--plant", "memcheck", said=CLEAN)
    assert (status, lines[0].rpartition(",")[0]) == (1, "memcheck: the planted fault was NOT found")
