"""Every kernel without a GPU: its machine code, its launch geometry, its arguments against its parameters.

The launches are those of the fused backend itself, made with tensors on the meta device and recorded
instead of run, so that the definitions in use are the ones compiled.
"""

import math
import os
import re
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.folds import split
from trainer.fused.agent import FusedAgent
from trainer.fused.market_lanes import LaneInputs, MarketLanes
from trainer.fused.replay import FusedReplay
from trainer.fused.step_buffers import StepBuffers
from trainer.fused.workspaces import QWorkspace, VWorkspace
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.act import ActionDraws, act, act_greedily
from trainer.kernels.collection_close import collection_close
from trainer.kernels.compilation import KernelSpec
from trainer.kernels.evaluation_step import EvaluationLanes, evaluation_step
from trainer.kernels.greedy_row import greedy_row
from trainer.kernels.loader import Kernel
from trainer.kernels.market_begin import market_begin
from trainer.kernels.market_step import market_step
from trainer.kernels.nvrtc import open_nvrtc
from trainer.kernels.source import source_dir
from trainer.market_environment import market_layout
from trainer.market_tables import MarketTables
from trainer.replay import ReplayBuffer
from trainer.transitions import Collection

META = torch.device("meta")
ARCHITECTURES = ("sm_80", "sm_86", "sm_90")
LEAST_SHARED_BYTES = 99 * 1024  # what a block may have on sm_86, the smallest of them
MOST_THREADS = 1024
MOST_BLOCKS = (2**31 - 1, 65535, 65535)
COLD = {"accept_step"}  # one block per member and step: a register saved around a call costs nothing
FEW_BYTES = 8  # what other shapes may spill
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
SCALARS = {np.int32: "int", np.int64: "long long", np.float32: "float", np.float64: "double"}
TRAININGS = {
    "default": {"data.path": "sp500"},
    "double": {
        "use_iql": False,
        "precision": "fp32",
        "actions_per_branch": "3x3x3x3",
        "returns": "difference",
        "fill": "next_close",
        "capacity": 2**21,
        "folds": 60,
        "min_folds": 1,
    },
    "wide": {"batch_size": 16384, "actions_per_branch": "11x11x11x11", "trunk_widths": "33x7"},
}


@dataclass(frozen=True)
class Launch:
    """What a wrapper asked for."""

    training: str
    spec: KernelSpec
    entry: str
    grid: tuple[int, ...]
    threads: int
    args: tuple[object, ...]
    shared_bytes: int


def run_once(config):
    """Launches every kernel of a training of the fused backend, on tensors without memory."""
    market = load_market(config)
    folds = split(len(market.bars), config.walk_forward).folds
    members, rows = len(folds), config.environment.episodes
    tables = MarketTables.build(market, folds, config, torch.float32, META)
    layout = market_layout(config, len(market.feature_names))
    hyper = Hyperparameters.stack([config] * members, torch.float32, META)
    keys = torch.empty((members, 2), dtype=torch.int64, device=META)
    counter = torch.empty((), dtype=torch.int64, device=META)
    agent = FusedAgent(config, layout, hyper, keys, META, config.training.precision)
    replay = ReplayBuffer(members, config.replay.capacity, layout, torch.float32, META)
    fused, dtype = FusedReplay(replay, tables.table), agent.act_dtype
    buffers = StepBuffers.allocate(members, config.agent.batch_size, layout, dtype, META)

    length = config.environment.episode_length
    fused.insert(Collection.allocate(members, rows, length, layout, torch.float32, META), hyper)
    fused.draw_into(buffers, counter, keys, hyper)
    fused.sample_into(buffers, counter, keys, hyper)
    agent.update(buffers)
    fused.write_priorities(buffers, hyper)

    lanes = MarketLanes.allocate(config, layout, members, dtype, META)
    inputs = LaneInputs.build(tables, layout, hyper, keys, counter, length)
    q = QWorkspace.allocate(agent.networks.shapes, members, rows, dtype, META)
    value = VWorkspace.allocate(agent.networks.shapes, members, rows, dtype, META)
    draws = ActionDraws(keys, counter, lanes.position)
    market_begin(inputs, lanes, replay)
    act(agent.networks, q, value if config.agent.use_iql else None, hyper, draws, lanes.action)
    market_step(inputs, lanes, replay)
    collection_close(replay, hyper, rows, length)
    walk = EvaluationLanes.allocate(tables, layout, dtype)
    act_greedily(
        agent.networks,
        QWorkspace.allocate(agent.networks.shapes, members, 1, dtype, META),
        hyper,
        walk.action,
    )
    logits = torch.empty((members, 1, agent.networks.shapes.logit_width), dtype=torch.float32, device=META)
    greedy_row(agent.networks, walk.state, logits, hyper, walk.action)
    evaluation_step(tables, layout, hyper, walk, 1.0, length)


@pytest.fixture(scope="module")
def launches():
    found: list[Launch] = []
    training = ""

    def record(kernel, grid, block, *args, shared_bytes=0):
        threads = block if isinstance(block, int) else math.prod(block)
        [kernel._value(arg) for arg in args]  # refuses what a real launch refuses
        found.append(Launch(training, kernel.spec, kernel.name, grid, threads, args, shared_bytes))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Kernel, "launch", record)
        device = types.SimpleNamespace(multi_processor_count=132, major=9)
        patched.setattr(torch.cuda, "get_device_properties", lambda _: device)
        for training, keys in TRAININGS.items():  # noqa: B007, read by record
            base = {"data.path": "synthetic:known_answer:2000:1", "episode_length": 16, **keys}
            run_once(TrainerConfig.build().with_overrides(base))
    return found


@pytest.fixture(scope="module")
def logs(launches):
    """(definitions, architecture) -> what the assembler said of it."""
    compiler = open_nvrtc()
    wanted = [
        (spec, architecture) for spec in {each.spec for each in launches} for architecture in ARCHITECTURES
    ]

    def compiled(job):
        spec, architecture = job
        options = (*spec.options(architecture), "--ptxas-options=-v")
        return job, compiler.compile(spec.source(), f"{spec.name}.cu", options).log

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return dict(threads.map(compiled, wanted))


def test_every_source_is_launched_by_the_fused_backend(launches):
    assert {each.spec.name for each in launches} == {path.stem for path in source_dir().glob("*.cu")}
    assert all(each.entry == each.spec.name for each in launches)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_hot_kernel_spills_registers(launches, logs, architecture):
    hot = {each.spec for each in launches if each.training == "default" and each.spec.name not in COLD}
    spilling = []
    for (spec, compiled_for), log in logs.items():
        if compiled_for == architecture:
            found = SPILLS.findall(log)
            assert found, f"no word of registers in {log}"
            most = 0 if spec in hot else FEW_BYTES
            spilling += [(spec, spill) for spill in found if max(map(int, spill[1:])) > most]
    assert spilling == []


def test_every_launch_is_within_the_limits_of_the_smallest_gpu(launches):
    for each in launches:
        assert 1 <= each.threads <= MOST_THREADS, each
        assert all(1 <= blocks <= most for blocks, most in zip(each.grid, MOST_BLOCKS, strict=False)), each
        assert each.shared_bytes <= LEAST_SHARED_BYTES, each


def test_arguments_agree_with_parameters_in_number_and_kind(launches):
    for each in launches:
        parameters = parameters_of(each.spec)
        assert len(parameters) == len(each.args), (each.spec.name, len(parameters), len(each.args))
        for parameter, arg in zip(parameters, each.args, strict=True):
            pointer = isinstance(arg, torch.Tensor | np.uint64)  # np.uint64(0) is a null pointer
            assert pointer == ("*" in parameter), (each.spec.name, parameter, arg)
            if not pointer:
                assert parameter.rpartition(" ")[0] == SCALARS[type(arg)], (each.spec.name, parameter, arg)


def parameters_of(spec):
    """Types and names of a kernel's parameters, as written in its source."""
    source = re.sub(r"//[^\n]*", "", spec.source())
    entry = re.search(r'extern "C" __global__[^{;]*?\b' + spec.name + r"\s*\(([^)]*)\)", source)
    return [" ".join(parameter.replace("const ", "").split()) for parameter in entry[1].split(",")]
