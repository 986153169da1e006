"""The kernel loader with the real CuPy: compiled once, launched on torch's stream, warm when asked again."""

import gc

import numpy as np
import pytest
import torch

from trainer.config import TrainerConfig
from trainer.fused.agent import FusedAgent
from trainer.hyperparameters import Hyperparameters
from trainer.kernels import loader
from trainer.kernels.compilation import KernelBuilder
from trainer.kernels.cubin_cache import CubinCache
from trainer.kernels.nvrtc import open_nvrtc
from trainer.kernels.relu import relu
from trainer.layout import StateLayout
from trainer.memory_plan import META, items_of

pytestmark = pytest.mark.gpu
LAYOUT = StateLayout(goal_dim=1, prefix_dim=8, table_dim=48, achieved_offset=1, actions_per_branch=(5, 3, 3))


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A loader that has compiled nothing yet, with a cache of its own; returns new builders of it."""
    major, minor = torch.cuda.get_device_capability()

    def new():
        builder = KernelBuilder(f"sm_{major}{minor}", open_nvrtc(), CubinCache(tmp_path))
        loader.load.cache_clear()
        loader._module.cache_clear()
        monkeypatch.setattr(loader, "builder", lambda: builder)
        return builder

    yield new
    loader.load.cache_clear()
    loader._module.cache_clear()


def launched(device):
    hidden = torch.linspace(-1.0, 1.0, 48, device=device).view(1, 3, 16).contiguous()
    expected = hidden.clamp(min=0.0)
    relu(hidden, 16)
    return torch.equal(hidden, expected)


def test_a_cold_loader_compiles_and_a_warm_one_does_not(fresh, cuda):
    cold = fresh()
    assert launched(cuda)
    assert cold.compiled == 1
    assert launched(cuda)
    assert cold.compiled == 1
    warm = fresh()
    assert launched(cuda)
    assert warm.compiled == 0


def test_gathered_kernels_are_compiled_but_not_run(fresh, cuda):
    builder = fresh()
    hidden = torch.full((1, 2, 8), -1.0, device=cuda)
    with loader.gathering():
        relu(hidden, 8)
        relu(hidden.bfloat16(), 8)
    assert builder.compiled == 2
    assert bool((hidden == -1.0).all())
    relu(hidden, 8)
    assert builder.compiled == 2
    assert bool((hidden == 0.0).all())


def test_a_launch_lands_on_torchs_current_stream(cuda):
    side = torch.cuda.Stream()
    hidden = torch.full((1, 2, 8), -1.0, device=cuda)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        relu(hidden, 8)
        event = side.record_event()
    event.synchronize()
    assert bool((hidden == 0.0).all())


def test_a_python_number_is_refused_before_anything_is_launched(cuda):
    with pytest.raises(TypeError, match="numpy scalars"):
        loader.load("relu", (("ACTIVATION", "float"),)).launch(
            (1,), 32, torch.zeros(8, device=cuda), 1, np.int32(8), 8
        )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_memory_plan_of_an_agent_is_what_torch_allocates(cuda, precision):
    config = TrainerConfig.build().with_overrides({"precision": precision, "batch_size": 4096})
    members = 3

    def agent(device):
        hyper = Hyperparameters.stack([config] * members, torch.float32, device)
        keys = torch.zeros((members, 2), dtype=torch.int64, device=device)
        return hyper, keys, FusedAgent(config, LAYOUT, hyper, keys, device, precision)

    planned = items_of(agent(META), "agent")
    gc.collect()
    # What was asked for: the size of torch's blocks depends on what is free at the time.
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    kept = agent(cuda)
    requested = torch.cuda.memory_stats()["requested_bytes.all.current"] - before
    assert requested == sum(item.size for item in planned)
    del kept
