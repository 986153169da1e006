"""Which backend trains where: what is asked for is met or refused, and auto says why it falls back."""

from dataclasses import replace

import pytest
import torch

from trainer import backend
from trainer.backend import resolve_backend
from trainer.compatibility import CudaStack
from trainer.config import TrainerConfig
from trainer.errors import ConfigError

NO_CUPY = CudaStack(driver=(13, 0), torch_cuda=(13, 0), architecture=(9, 0), gpu="X", nvrtc=(13, 0))
WHOLE = CudaStack(
    driver=(13, 0),
    torch_cuda=(13, 0),
    architecture=(9, 0),
    gpu="X",
    nvrtc=(13, 0),
    cupy=(("cupy-cuda13x", "14"),),
    runtime=(13, 0),
)


def resolved(**keys):
    return resolve_backend(TrainerConfig.build({"training": keys}))


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(backend, "driver_devices", lambda: 0)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def machine(monkeypatch):
    """Pretends that torch sees a GPU; returns a function that sets the rest."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "X")
    return lambda stack: monkeypatch.setattr(backend, "_stack", lambda: stack)


def test_auto_without_a_gpu_is_the_reference_on_the_cpu_and_says_why(without_gpu):
    found = resolved()
    assert (found.name, found.device, found.dtype) == ("reference", torch.device("cpu"), torch.float32)
    assert found.note == "backend reference on the CPU (0 GPUs visible), float32, 1 thread"


def test_several_threads_are_told_in_the_plural(without_gpu):
    before = torch.get_num_threads()
    try:
        assert resolved(threads=2).note.endswith("float32, 2 threads")
    finally:
        torch.set_num_threads(before)


def test_auto_where_everything_is_there_is_fused(machine):
    machine(WHOLE)
    found = resolved(precision="tf32")
    assert (found.name, found.device, found.dtype) == ("fused", torch.device("cuda"), torch.float32)
    assert found.note == "backend fused on X, tf32 products"


def test_auto_without_cupy_falls_to_the_cpu_and_names_what_to_install(machine):
    machine(NO_CUPY)
    found = resolved()
    assert (found.name, found.device) == ("reference", torch.device("cpu"))
    assert 'CuPy none; pip install -e ".[cuda13]" for the GPU' in found.note


@pytest.mark.parametrize("keys", [{"dtype": "float64"}, {"device": "cpu"}])
def test_auto_leaves_what_fused_cannot_do_to_the_reference(machine, keys):
    machine(WHOLE)
    assert resolved(**keys).name == "reference"
    assert next(iter(keys.values())) in resolved(**keys).note


def test_the_reference_uses_the_gpu_only_where_it_is_named(machine):
    machine(WHOLE)
    assert resolved(backend="reference").device == torch.device("cpu")
    assert resolved(backend="reference", device="cuda").device == torch.device("cuda")


@pytest.mark.parametrize("setting", [None, "", "-1"])
def test_fused_without_a_gpu_is_refused_with_both_ways_out(without_gpu, monkeypatch, setting):
    shown = ""
    if setting is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
        shown = f" (CUDA_VISIBLE_DEVICES={setting!r})"
    with pytest.raises(ConfigError) as caught:
        resolved(backend="fused")
    assert str(caught.value) == (
        f"training.backend: fused cannot run here: 0 GPUs visible{shown}; give the training a GPU with "
        "resources.gpu, or use --backend reference"
    )


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"dtype": "float64"}, "training.dtype"),
        ({"device": "cpu"}, "training.device"),
    ],
)
def test_fused_refuses_what_it_cannot_do_before_it_looks_for_a_gpu(keys, key):
    with pytest.raises(ConfigError, match=r"backend fused .* --backend reference") as caught:
        resolved(backend="fused", **keys)
    assert caught.value.key == key


def test_fused_without_cupy_is_refused_naming_the_extra(machine):
    machine(NO_CUPY)
    with pytest.raises(ConfigError, match=r"CuPy none; pip install -e \"\.\[cuda13\]\""):
        resolved(backend="fused")


def test_a_cuda_device_that_is_not_there_is_refused(without_gpu):
    with pytest.raises(
        ConfigError, match=r"training\.device: needs a CUDA device, but got 'cuda' with 0 GPUs"
    ):
        resolved(backend="reference", device="cuda")


def test_auto_refuses_a_broken_installation_instead_of_falling_back(machine):
    both = (("cupy-cuda12x", "13.4"), ("cupy-cuda13x", "14.2"))
    machine(replace(WHOLE, cupy=both))
    with pytest.raises(ConfigError) as caught:
        resolved()
    assert "CuPy cupy-cuda12x 13.4 and cupy-cuda13x 14.2; pip uninstall cupy-cuda12x cupy-cuda13x" in str(
        caught.value
    )
    assert str(caught.value).endswith("or use --backend reference")
    assert resolved(backend="reference").name == "reference"


@pytest.fixture
def blind(machine, monkeypatch):
    """A GPU that the driver shows and torch does not see; returns a function that sets the rest."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(backend, "driver_devices", lambda: 1)
    return lambda **change: machine(replace(WHOLE, gpu=None, architecture=None, devices=1, **change))


def test_a_driver_too_old_for_torch_is_refused_and_not_called_a_machine_without_a_gpu(blind):
    blind(driver=(12, 7))
    for choice in ("auto", "fused"):
        with pytest.raises(ConfigError, match=r"NVIDIA driver CUDA 12\.7; update the driver"):
            resolved(backend=choice)
    assert resolved(backend="reference").name == "reference"


def test_a_cpu_build_of_torch_beside_a_gpu_falls_to_the_cpu_and_says_what_is_missing(blind):
    blind(torch_cuda=None)
    assert "CUDA in torch CPU build; for the GPU: pip uninstall -y torch" in resolved().note
