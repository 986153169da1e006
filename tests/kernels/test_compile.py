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
from trainer.fused.workspaces import QSlopes, QWorkspace, VWorkspace
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.act import ActionDraws, act, act_greedily
from trainer.kernels.c51_iql_step import RowTerms, c51_given_bootstrap
from trainer.kernels.collection_close import collection_close
from trainer.kernels.compilation import KernelSpec
from trainer.kernels.evaluation_step import EvaluationLanes, evaluation_step
from trainer.kernels.greedy_row import greedy_row
from trainer.kernels.loader import Kernel
from trainer.kernels.market_begin import market_begin
from trainer.kernels.market_step import market_step
from trainer.kernels.nvrtc import open_nvrtc
from trainer.kernels.source import source_dir
from trainer.layout import StateLayout
from trainer.market_environment import market_layout
from trainer.market_tables import MarketTables
from trainer.replay import ReplayBuffer
from trainer.transitions import Collection

META = torch.device("meta")
ARCHITECTURES = ("sm_80", "sm_86", "sm_90")
LEAST_SHARED_BYTES = 99 * 1024  # what a block may have on sm_86, the smallest of them
MOST_THREADS = 1024
MOST_BLOCKS = (2**31 - 1, 65535, 65535)
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
SCALARS = {np.int32: "int", np.int64: "long long", np.float32: "float", np.float64: "double"}
TRAININGS = {
    "default": {"data.path": "sp500"},
    "return": {"data.path": "sp500", "reward": "return"},
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
    "narrow": {"actions_per_branch": "3", "num_atoms": 2, "trunk_widths": "33", "precision": "tf32"},
    "many atoms": {"actions_per_branch": "3x3x3x3", "num_atoms": 101, "returns": "difference"},
    "default of fp32": {"data.path": "sp500", "precision": "fp32"},
    "double of bf16": {
        "data.path": "sp500",
        "use_iql": False,
        "achieved_offset": 0,
        "actions_per_branch": "5x3x3",
        "num_atoms": 101,
        "returns": "difference",
        "fill": "next_close",
    },
    "goal in place": {
        "actions_per_branch": "3",
        "num_atoms": 2,
        "achieved_offset": 0,
        "use_iql": False,
        "precision": "fp32",
    },
}
RINGS = (  # of environments without a table
    StateLayout(1, 1, 0, 0, (3,)),
    StateLayout(3, 7, 0, 3, (5, 3, 3)),
    StateLayout(8, 16, 0, 8, (8,)),
)

# Definitions of which there are few values: every kernel is compiled with all of them.
CHOICES = {
    "ACTIVATION": {"float", "foxtune::Bf16"},
    "RELATIVE": {0, 1},
    "AT_CLOSE": {0, 1},
    "GOAL_HOLDS_ACHIEVED": {0, 1},
    "GREEDY": {0, 1},
    "HAS_VALUE": {0, 1},
    "NETWORKS": {1, 3},
    "BF16_COPIES": {0, 1},
    "ALIGNED": {0, 1},
    "SECOND_STATE": {0, 1},
}
# Definitions that may have any value: these are compiled at least.
SIZES = {
    "NUM_ATOMS": {2, 51, 101},
    "ACTIONS": {"n3", "n5n3n3", "n3n3n3n3"},
    "NUM_BRANCHES": {1, 3, 4},
    "PREFIX_DIM": {8},
    "TABLE_DIM": {48},
    "GOAL_DIM": {1},
    "ACHIEVED_OFFSET": {0, 1},
    "HIDDEN": {8, 40, 256},
    "CLUSTER": {4, 8},
    "STATE": {64},
    "TRUNK": {"n256n256", "n40n8"},
    "HEAD": {128},
    "STARTS": set(),
}


@dataclass(frozen=True)
class Launch:
    """What a wrapper asked for."""

    training: str
    spec: KernelSpec
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
    fused = FusedReplay(replay, tables.table, second_state=config.agent.use_iql)
    dtype = agent.act_dtype
    buffers = StepBuffers.allocate(members, config.agent.batch_size, layout, dtype, META)

    length = config.environment.episode_length
    fused.insert(Collection.allocate(members, rows, length, layout, torch.float32, META), hyper)
    fused.draw_into(buffers, counter, keys, hyper)
    fused.sample_into(buffers, counter, keys, hyper)
    agent.update(buffers)
    fused.write_priorities(buffers, hyper)
    if config.agent.use_iql:
        critic_alone(config, agent, replay, tables.table, buffers, counter, keys, hyper)

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


def run_ring(layout, dtype):
    """Inserts into and samples from a ring of an environment without a table."""
    config = TrainerConfig.build()
    hyper = Hyperparameters.stack([config] * 2, torch.float32, META)
    fused = FusedReplay(ReplayBuffer(2, 64, layout, torch.float32, META), None)
    buffers = StepBuffers.allocate(2, 8, layout, dtype, META)
    fused.insert(Collection.allocate(2, 2, 4, layout, torch.float32, META), hyper)
    counter = torch.empty((), dtype=torch.int64, device=META)
    keys = torch.empty((2, 2), dtype=torch.int64, device=META)
    fused.sample_into(buffers, counter, keys, hyper)


def critic_alone(config, agent, replay, table, buffers, counter, keys, hyper):
    """What a benchmark launches of the step without value networks."""
    FusedReplay(replay, table, second_state=False).sample_into(buffers, counter, keys, hyper)
    shapes, members, rows = agent.networks.shapes, replay.members, config.agent.batch_size
    q = QWorkspace.allocate(shapes, members, rows, agent.act_dtype, META)
    slopes = QSlopes.allocate(shapes, members, rows, agent.act_dtype, META)
    terms = RowTerms.allocate(members, rows, META)
    c51_given_bootstrap(agent.networks, q, terms.values[0], buffers, hyper, slopes, terms)


@pytest.fixture(scope="module")
def launches():
    found: list[Launch] = []
    training = ""

    def record(kernel, grid, block, *args, shared_bytes=0):
        threads = block if isinstance(block, int) else math.prod(block)
        [kernel._value(arg) for arg in args]  # refuses what a real launch refuses
        found.append(Launch(training, kernel.spec, grid, threads, args, shared_bytes))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Kernel, "launch", record)
        device = types.SimpleNamespace(multi_processor_count=132, major=9, minor=0)
        patched.setattr(torch.cuda, "get_device_properties", lambda _: device)
        for training, keys in TRAININGS.items():  # noqa: B007, read by record
            base = {"data.path": "synthetic:known_answer:2000:1", "episode_length": 16, **keys}
            run_once(TrainerConfig.build().with_overrides(base))
        training = "rings"
        for layout in RINGS:
            for dtype in (torch.float32, torch.bfloat16):
                run_ring(layout, dtype)
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


def test_every_definition_is_compiled_with_each_of_its_choices_and_usual_sizes(launches):
    found: dict[tuple[str, str], set[int | str]] = {}
    for each in launches:
        for name, value in each.spec.defines:
            found.setdefault((each.spec.name, name), set()).add(value)
    missing = {key: (CHOICES | SIZES)[key[1]] - values for key, values in found.items()}
    assert {key: values for key, values in missing.items() if values} == {}


def test_a_definition_is_a_choice_or_a_size(launches):
    names = {name for each in launches for name, _ in each.spec.defines}
    assert names == {*CHOICES, *SIZES}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_kernel_spills_registers(logs, architecture):
    spilling = []
    for (spec, compiled_for), log in logs.items():
        if compiled_for == architecture:
            found = SPILLS.findall(log)
            assert found, f"no word of registers in {log}"
            spilling += [(spec, spill) for spill in found if max(map(int, spill[1:])) > 0]
    assert spilling == []


def test_the_differential_sharpe_ratio_adds_no_kernel(launches):
    """The kind of reward is a flag in device memory: the same kernels, as often, on the same grids."""
    ratio, plain = (
        [(each.spec, each.grid) for each in launches if each.training == training]
        for training in ("default", "return")
    )
    assert "market_step" in {spec.name for spec, _ in ratio}
    assert ratio == plain


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
