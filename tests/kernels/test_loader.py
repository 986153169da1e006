"""The kernel loader with a recording stand-in for CuPy: what is loaded, cached, passed and refused."""

import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from trainer.errors import CudaSetupError
from trainer.kernels import loader
from trainer.kernels.source import source_dir


class FakeFunction:
    def __init__(self, name):
        self.name = name
        self.calls = []
        self.max_dynamic_shared_size_bytes = None

    def __call__(self, grid, block, args, shared_mem, stream):
        self.calls.append((grid, block, args, shared_mem, stream))


class FakeModule:
    loaded: list["FakeModule"]

    def __init__(self, path):
        self.path = path
        self.functions = {}
        FakeModule.loaded.append(self)

    def get_function(self, name):
        return self.functions.setdefault(name, FakeFunction(name))


class FakeBuilder:
    def __init__(self):
        self.batches = []

    def build(self, spec):
        return Path(f"{spec.name}{''.join(f'-{key}{value}' for key, value in spec.defines)}.cubin")

    def build_all(self, specs):
        self.batches.append(list(specs))


def forget():
    for cached in (loader.load, loader._module, loader._external_stream, loader.builder):
        cached.cache_clear()


def stream_classes(new):
    """How CuPy takes a foreign stream: newer releases by a protocol, older ones by its address."""
    if new:
        stream = types.SimpleNamespace(from_external=lambda other: ("stream", other.__cuda_stream__()[1]))
        return types.SimpleNamespace(Stream=stream)
    return types.SimpleNamespace(Stream=object, ExternalStream=lambda pointer: ("stream", pointer))


@pytest.fixture(params=[True, False], ids=["new", "old"])
def cupy(monkeypatch, request):
    FakeModule.loaded = []
    module = types.ModuleType("cupy")
    module.RawModule = FakeModule
    module.cuda = stream_classes(request.param)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: types.SimpleNamespace(cuda_stream=77))
    builder = FakeBuilder()
    forget()
    with monkeypatch.context() as patched:
        patched.setattr(loader, "builder", lambda: builder)
        module.builder = builder
        yield module
    forget()


def test_the_sources_are_found_beside_the_package():
    assert (source_dir() / "philox.cuh").is_file()


def test_a_kernel_is_loaded_once_for_each_combination_of_definitions(cupy):
    first = loader.load("priority_sums", (("WIDTH", 4),))
    assert loader.load("priority_sums", (("WIDTH", 4),)) is first
    for kernel in (first, first, loader.load("priority_sums", (("WIDTH", 8),))):
        kernel.launch((1,), 32)
    assert [module.path for module in FakeModule.loaded] == [
        "priority_sums-WIDTH4.cubin",
        "priority_sums-WIDTH8.cubin",
    ]
    assert list(FakeModule.loaded[0].functions) == ["priority_sums"]


def test_tensors_travel_as_addresses_and_numpy_scalars_as_they_are_on_the_current_stream(cupy):
    tensor = torch.zeros(3)
    loader.load("priority_sums").launch((5, 2), 128, tensor, np.int32(7), np.float32(0.5))
    [(grid, block, args, shared, stream)] = FakeModule.loaded[0].functions["priority_sums"].calls
    assert (grid, block, shared, stream) == ((5, 2), (128,), 0, ("stream", 77))
    assert [type(arg) for arg in args] == [np.uint64, np.int32, np.float32]
    assert args[0] == tensor.data_ptr()


@pytest.mark.parametrize("number", [3, 0.5, True])
def test_a_python_number_is_refused(cupy, number):
    with pytest.raises(TypeError, match="kernel priority_sums takes tensors and numpy scalars"):
        loader.load("priority_sums").launch((1,), 32, number)
    assert FakeModule.loaded == []


def test_shared_memory_beyond_48_kilobytes_is_asked_for_once_it_is_needed(cupy):
    kernel = loader.load("priority_sums")
    kernel.launch((1,), 32, shared_bytes=48 * 1024)
    function = FakeModule.loaded[0].functions["priority_sums"]
    assert function.max_dynamic_shared_size_bytes is None
    kernel.launch((1,), 32, shared_bytes=100_000)
    assert function.max_dynamic_shared_size_bytes == 100_000


def test_gathered_launches_run_nothing_and_are_compiled_together_at_the_end(cupy):
    with loader.gathering():
        loader.load("priority_sums").launch((1,), 32)
        loader.load("priority_write", flags=("--fmad=false",)).launch((1,), 32)
        assert cupy.builder.batches == []
    assert FakeModule.loaded == []
    [batch] = cupy.builder.batches
    assert [(spec.name, spec.flags) for spec in batch] == [
        ("priority_sums", ()),
        ("priority_write", ("--fmad=false",)),
    ]
    loader.load("priority_sums").launch((1,), 32)
    assert len(FakeModule.loaded) == 1


def test_a_failing_block_compiles_nothing_and_ends_the_gathering(cupy):
    with pytest.raises(ZeroDivisionError), loader.gathering():
        raise ZeroDivisionError
    assert cupy.builder.batches == []
    loader.load("priority_sums").launch((1,), 32)
    assert len(FakeModule.loaded) == 1


def test_a_missing_cupy_is_one_sentence_that_names_the_extras(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(CudaSetupError) as caught:
        loader.import_cupy()
    assert str(caught.value).startswith(
        "the fused backend needs CuPy, which is not installed; install foxtune["
    )
    assert "foxtune[cuda12] or foxtune[cuda13]" in str(caught.value)


def test_a_broken_cupy_says_why_and_where_to_look(monkeypatch, tmp_path):
    (tmp_path / "cupy.py").write_text("raise ImportError('libcudart.so.12: cannot open\\nmore')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    with pytest.raises(CudaSetupError, match=r"\(libcudart\.so\.12: cannot open\); foxtune doctor"):
        loader.import_cupy()
