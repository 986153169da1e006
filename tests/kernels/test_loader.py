"""The kernel loader with a recording stand-in for CuPy: what is compiled, cached, passed and refused."""

import sys
import types

import numpy as np
import pytest
import torch

from trainer.kernels import loader
from trainer.kernels.source import headers_digest, source_dir


class FakeFunction:
    def __init__(self, name):
        self.name = name
        self.calls = []
        self.max_dynamic_shared_size_bytes = None

    def __call__(self, grid, block, args, shared_mem, stream):
        self.calls.append((grid, block, args, shared_mem, stream))


class FakeModule:
    compiled: list["FakeModule"]

    def __init__(self, code, options):
        self.code, self.options = code, options
        self.functions = {}
        FakeModule.compiled.append(self)

    def get_function(self, name):
        return self.functions.setdefault(name, FakeFunction(name))


@pytest.fixture
def fake_cupy(monkeypatch):
    FakeModule.compiled = []
    cupy = types.ModuleType("cupy")
    cupy.RawModule = FakeModule
    cupy.cuda = types.SimpleNamespace(ExternalStream=lambda pointer: ("stream", pointer))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: types.SimpleNamespace(cuda_stream=77))
    loader.load.cache_clear()
    loader._module.cache_clear()
    yield FakeModule.compiled
    loader.load.cache_clear()
    loader._module.cache_clear()


def test_the_sources_are_found_beside_the_package():
    assert (source_dir() / "philox.cuh").is_file()


def test_a_kernel_is_compiled_once_for_each_combination_of_definitions(fake_cupy):
    first = loader.load("priority_sums", (("WIDTH", 4),))
    assert loader.load("priority_sums", (("WIDTH", 4),)) is first
    assert loader.load("priority_sums", (("WIDTH", 8),)) is not first
    assert loader.load("priority_sums", (("WIDTH", 4),), entry="other").name == "other"
    assert [module.options[-1] for module in fake_cupy] == ["-DWIDTH=4", "-DWIDTH=8"]


def test_the_options_change_with_any_header(fake_cupy):
    loader.load("priority_sums")
    assert f"-DHEADERS_DIGEST=0x{headers_digest()}" in fake_cupy[0].options


def test_tensors_travel_as_addresses_and_numpy_scalars_as_they_are_on_the_current_stream(fake_cupy):
    kernel = loader.load("priority_sums")
    tensor = torch.zeros(3)
    kernel.launch((5, 2), 128, tensor, np.int32(7), np.float32(0.5))
    [(grid, block, args, shared, stream)] = fake_cupy[0].functions["priority_sums"].calls
    assert (grid, block, shared, stream) == ((5, 2), (128,), 0, ("stream", 77))
    assert [type(arg) for arg in args] == [np.uint64, np.int32, np.float32]
    assert args[0] == tensor.data_ptr()


@pytest.mark.parametrize("number", [3, 0.5, True])
def test_a_python_number_is_refused(fake_cupy, number):
    with pytest.raises(TypeError, match="kernel priority_sums takes tensors and numpy scalars"):
        loader.load("priority_sums").launch((1,), 32, number)


def test_shared_memory_beyond_48_kilobytes_is_asked_for_once_it_is_needed(fake_cupy):
    kernel = loader.load("priority_sums")
    function = fake_cupy[0].functions["priority_sums"]
    kernel.launch((1,), 32, shared_bytes=48 * 1024)
    assert function.max_dynamic_shared_size_bytes is None
    kernel.launch((1,), 32, shared_bytes=100_000)
    assert function.max_dynamic_shared_size_bytes == 100_000
