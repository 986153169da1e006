"""The builder with the real compiler, which needs no GPU: keys, counts, threads, processes, errors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainer.kernels import compilation
from trainer.kernels.compilation import KernelBuilder, KernelSpec
from trainer.kernels.cubin_cache import CubinCache
from trainer.kernels.nvrtc import KernelCompileError, open_nvrtc

SUMS = KernelSpec("priority_sums")
ROOT = Path(__file__).parents[3]
BUILD = """
import sys
from trainer.kernels.compilation import KernelBuilder, KernelSpec
from trainer.kernels.cubin_cache import CubinCache
from trainer.kernels.nvrtc import open_nvrtc

builder = KernelBuilder("sm_90", open_nvrtc(), CubinCache())
builder.build_all([KernelSpec("priority_sums"), KernelSpec("priority_sums", (("UNUSED", 1),))])
print(builder.compiled)
"""


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A folder of sources of the test's own: one kernel and one header."""
    folder = tmp_path / "cuda"
    folder.mkdir()
    (folder / "twice.cuh").write_text("__device__ inline int twice(int x) { return 2 * x; }\n")
    (folder / "double_it.cu").write_text(
        '#include "twice.cuh"\n'
        'extern "C" __global__ void double_it(int* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }\n'
    )
    monkeypatch.setattr(compilation, "source_dir", lambda: folder)
    monkeypatch.setattr("trainer.kernels.source.source_dir", lambda: folder)
    return folder


def builder(folder: Path, architecture: str = "sm_90") -> KernelBuilder:
    return KernelBuilder(architecture, open_nvrtc(), CubinCache(folder))


def test_the_key_changes_with_source_headers_definitions_flags_architecture_and_compiler(sources):
    spec = KernelSpec("double_it")
    keys = {
        spec.key("sm_90", (13, 0)),
        spec.key("sm_86", (13, 0)),
        spec.key("sm_90", (13, 1)),
        KernelSpec("double_it", (("A", 1),)).key("sm_90", (13, 0)),
        KernelSpec("double_it", (("A", 11),)).key("sm_90", (13, 0)),
        KernelSpec("double_it", (), ("--fmad=false",)).key("sm_90", (13, 0)),
    }
    for path in (sources / "twice.cuh", sources / "double_it.cu"):
        path.write_text(path.read_text() + "// changed\n")
        keys.add(spec.key("sm_90", (13, 0)))
    assert len(keys) == 8


def test_a_warm_start_compiles_nothing(sources, tmp_path):
    specs = [KernelSpec("double_it"), KernelSpec("double_it", (("A", 1),)), KernelSpec("double_it")]
    cold = builder(tmp_path / "cache")
    cold.build_all(specs)
    assert cold.compiled == 2
    cold.build_all(specs)
    assert cold.compiled == 2
    warm = builder(tmp_path / "cache")
    warm.build_all(specs)
    assert warm.compiled == 0
    assert warm.build(specs[0]).read_bytes()[:4] == b"\x7fELF"


def test_a_damaged_file_is_compiled_again_and_replaced(sources, tmp_path):
    spec = KernelSpec("double_it")
    first = builder(tmp_path / "cache").build(spec)
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2])
    again = builder(tmp_path / "cache")
    assert again.build(spec) == first
    assert (again.compiled, first.read_bytes()) == (1, whole)


def test_a_changed_header_is_compiled_anew(sources, tmp_path):
    first = builder(tmp_path / "cache").build(KernelSpec("double_it"))
    (sources / "twice.cuh").write_text("__device__ inline int twice(int x) { return x + x + 1; }\n")
    second = builder(tmp_path / "cache").build(KernelSpec("double_it"))
    assert first != second


def test_a_source_that_does_not_compile_shows_the_compilers_words(sources, tmp_path):
    (sources / "double_it.cu").write_text("__global__ void double_it() { undeclared = 1; }\n")
    with pytest.raises(KernelCompileError, match=r'double_it\.cu(.|\n)*"undeclared" is undefined'):
        builder(tmp_path / "cache").build(KernelSpec("double_it"))


def test_a_missing_header_is_named(sources, tmp_path):
    (sources / "double_it.cu").write_text('#include "vector_types.h"\n')
    with pytest.raises(KernelCompileError, match=r"vector_types\.h"):
        builder(tmp_path / "cache").build(KernelSpec("double_it"))


def test_eight_processes_with_a_cold_cache_all_succeed(tmp_path):
    environment = {**os.environ, "CUPY_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", BUILD]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    answers = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0] * 8
    assert [error for _, error in answers] == [""] * 8
    assert len(list((tmp_path / "foxtune").iterdir())) == 2
    last = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert last.stdout == "0\n"
