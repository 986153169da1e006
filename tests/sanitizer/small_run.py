"""Every kernel over odd shapes, few launches, no graphs: what `.ci/sanitize` runs under its tools.

    small_run.py                    all configurations; the last line counts them, kernels and launches
    small_run.py --compile          only compiles what they launch, so that no tool has to watch a compiler
    small_run.py --plain-products   the same, with matrix products from products of elements
    small_run.py --plant racecheck  one wrong kernel instead, to prove that the tool sees our launches

S counts state columns, B rows, Z atoms, L steps of a lane; a market's states have 8 columns of their own, so
that the smallest states come from rings without a table.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from trainer.config import TrainerConfig
from trainer.data.synthetic import synthetic_market
from trainer.folds import Fold
from trainer.fused import networks as products
from trainer.fused.market_learner import FusedMarketLearner
from trainer.fused.networks import FusedNetworks
from trainer.fused.precision import activation_dtype
from trainer.fused.steps import FusedSteps
from trainer.fused.workspaces import QWorkspace
from trainer.hyperparameters import STRATEGIES, Hyperparameters
from trainer.kernels.act import act_greedily
from trainer.kernels.loader import Kernel, builder, gathering, import_cupy
from trainer.kernels.nvrtc import open_nvrtc
from trainer.layout import StateLayout
from trainer.market_environment import market_layout
from trainer.market_tables import MarketTables
from trainer.transitions import Collection

CAPACITY = 1100  # of rings without a table: the sums need two blocks, and three inserts go round
INSERTED = 420
MARKET_COLUMNS = 8  # of a market's state besides the table
BARS = 90
MARKET_LANES = 5
UPDATES = 2


@dataclass(frozen=True)
class Configuration:
    """One stack; every member has another strategy of hindsight, every other one another kind of reward."""

    state: int
    batch: int
    atoms: int
    branches: tuple[int, ...]
    length: int
    precision: str
    use_iql: bool
    trunk: tuple[int, ...] = (33, 20)
    market: tuple[str, str] | None = None  # returns and fill; None: a ring of random transitions
    members: int = len(STRATEGIES)

    def __str__(self) -> str:
        kind = "ring" if self.market is None else " ".join(self.market)
        target = "iql" if self.use_iql else "double-dqn"
        branches = "x".join(map(str, self.branches))
        sizes = f"S{self.state} B{self.batch} Z{self.atoms} L{self.length} {branches}"
        return f"{sizes} {self.precision} {target} {kind}"


CONFIGURATIONS = (
    Configuration(1, 1, 2, (3,), 1, "fp32", True, (33,)),
    Configuration(7, 31, 51, (5, 3, 3), 5, "bf16", True),
    Configuration(56, 257, 101, (3, 3, 3, 3), 1, "tf32", True, (20, 33, 9)),
    Configuration(33, 257, 51, (5, 3, 3), 5, "bf16", False),
    Configuration(63, 1, 101, (3,), 1, "fp32", False, (20,)),
    Configuration(1, 31, 2, (3, 3, 3, 3), 8, "bf16", False, (33,)),
    # above 4096 rows priorities are written in two phases and weight gradients come in slices
    Configuration(7, 4352, 2, (3,), 5, "bf16", True, members=1),
    Configuration(33, 31, 2, (3,), 1, "fp32", True, (33,), ("percent", "next_open")),
    Configuration(56, 257, 51, (5, 3, 3), 8, "bf16", True, (33, 20), ("percent", "next_close")),
    Configuration(63, 1, 101, (3, 3, 3, 3), 5, "bf16", False, (20,), ("difference", "next_open")),
    Configuration(56, 31, 51, (5, 3, 3), 8, "tf32", False, (33, 20), ("difference", "next_close")),
)


def member_configs(configuration: Configuration) -> list[TrainerConfig]:
    returns, fill = configuration.market or ("percent", "next_open")
    length = max(2, configuration.length)  # what the product asks for; the kernels hold for one step a lane
    shared = {
        "actions_per_branch": configuration.branches,
        "num_atoms": configuration.atoms,
        "trunk_widths": configuration.trunk,
        "head_width": 17,
        "batch_size": configuration.batch,
        "use_iql": configuration.use_iql,
        "precision": configuration.precision,
        "returns": returns,
        "fill": fill,
        "episodes": MARKET_LANES,
        "episode_length": length,
        "capacity": MARKET_LANES * length * 3 // 2,  # the third collection at the latest goes round
        "cuda_graph": False,
        "backend": "fused",
        "her_ratio": 0.5,
    }
    config = TrainerConfig.build({}).with_overrides(shared)
    environment = config.environment.model_copy(update={"episode_length": configuration.length})
    config = config.model_copy(update={"environment": environment})
    return [
        config.model_copy(
            update={
                "environment": environment.model_copy(update={"reward": ("dsr", "return")[m % 2]}),
                "hindsight": config.hindsight.model_copy(
                    update={
                        "her_strategy": STRATEGIES[m],
                        "her_future_offset": m // 2,
                        "her_weight": ("own", "one")[m % 2],
                    }
                ),
            }
        )
        for m in range(configuration.members)
    ]


def random_collection(layout: StateLayout, members: int, length: int, seed: int) -> Collection:
    """Two episodes a lane, goals of zeros and ones; on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    made = Collection.allocate(
        members, INSERTED // length, length, layout, torch.float32, torch.device("cpu")
    )
    for prefix in (made.prefix, made.next_prefix):
        prefix.random_(0, 2, generator=generator)
    made.reward.normal_(generator=generator)
    for branch, actions in enumerate(layout.actions_per_branch):
        made.action[..., branch].random_(0, actions, generator=generator)
    cut = length // 2
    made.terminated[:, :, max(cut - 1, 0)] = cut > 0
    made.truncated[..., -1] = True
    made.episode_start[:, :, cut:] = cut
    made.episode_stop[:, :, :cut] = cut
    made.episode_stop[:, :, cut:] = length
    return made


def run_ring(configuration: Configuration, device: torch.device) -> None:
    """Inserts until the ring has gone round, draws, samples, learns and writes priorities."""
    configs = member_configs(configuration)
    config = configs[0].model_copy(
        update={"replay": configs[0].replay.model_copy(update={"capacity": CAPACITY})}
    )
    goal = max(1, configuration.state // 3)
    offset = goal if configuration.state > 1 else 0
    layout = StateLayout(goal, configuration.state, 0, offset, configuration.branches)
    keys = torch.tensor([[3, fold] for fold in range(configuration.members)], device=device)
    hyper = Hyperparameters.stack(configs, torch.float32, device)
    steps = FusedSteps(config, layout, None, hyper, keys, device)
    for seed in range(3):
        made = random_collection(layout, configuration.members, configuration.length, seed)
        there = Collection(**{name: value.to(device) for name, value in vars(made).items()})
        steps.fused_replay.insert(there, hyper)
    steps.fused_replay.draw_into(steps.buffers, steps.updated, keys, hyper)
    steps.learn(UPDATES)


def run_market(configuration: Configuration, device: torch.device) -> None:
    """Collects, learns and walks the test windows."""
    configs, members = member_configs(configuration), configuration.members
    config = configs[0]
    market = synthetic_market(f"synthetic:known_answer:{BARS}:1", None, config.data.returns)
    columns = configuration.state - MARKET_COLUMNS
    features = np.random.default_rng(1).standard_normal((BARS, columns)).astype(np.float32)
    market = dataclasses.replace(
        market, features=features, feature_names=tuple(f"x{column}" for column in range(columns))
    )
    folds = [Fold(m, 50 + m, 53 + m, 61 + 2 * m) for m in range(members)]
    tables = MarketTables.build(market, folds, config, torch.float32, device)
    assert market_layout(config, columns).state_dim == configuration.state
    keys = torch.tensor([[3 + m // 2, m % 2] for m in range(members)], device=device)
    hyper = Hyperparameters.stack(configs, torch.float32, device)
    learner = FusedMarketLearner(config, tables, hyper, keys, device)
    for _ in range(3):
        learner.collect()
    learner.learn(UPDATES)
    learner.evaluate()
    act_on_products(learner._steps.agent.networks, members, hyper, config)


def act_on_products(
    networks: FusedNetworks, members: int, hyper: Hyperparameters, config: TrainerConfig
) -> None:
    """Acts greedily behind a chain of products, as the walk does with layers too wide for one launch."""
    dtype, device = activation_dtype(config.training.precision), hyper.gamma.device
    workspace = QWorkspace.allocate(networks.shapes, members, 1, dtype, device)
    action = torch.zeros((members, 1, networks.shapes.heads - 1), dtype=torch.uint8, device=device)
    act_greedily(networks, workspace, hyper, action)


def run(configuration: Configuration, device: torch.device) -> None:
    (run_ring if configuration.market is None else run_market)(configuration, device)


@contextmanager
def counted_launches() -> Iterator[Counter[str]]:
    """Counts the launches of every kernel in the block."""
    counts: Counter[str] = Counter()
    launch = Kernel.launch

    def counting(kernel: Kernel, *args, **options) -> None:
        launch(kernel, *args, **options)
        counts[kernel.name] += 1

    Kernel.launch = counting
    try:
        yield counts
    finally:
        Kernel.launch = launch


@contextmanager
def plain_products() -> Iterator[None]:
    """Keeps the libraries' matrix kernels out: racecheck itself fails on some of them on Hopper."""

    def plain(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_((left.float().unsqueeze(3) * right.float().unsqueeze(1)).sum(dim=2))

    library = products.product
    products.product = plain
    try:
        yield
    finally:
        products.product = library


PLANTED = {
    "memcheck": "x[32 + threadIdx.x] = 1;",  # right behind 32 integers
    "initcheck": "x[threadIdx.x] = fresh[threadIdx.x];",  # memory that nothing wrote
    # the other warp's half, without a barrier between
    "racecheck": "__shared__ int s[64]; s[threadIdx.x] = x[threadIdx.x % 32];"
    " x[threadIdx.x % 32] = s[63 - threadIdx.x];",
    "synccheck": "__syncwarp(1u); x[threadIdx.x % 32] = 1;",  # a mask without the threads that come
}


def plant(tool: str, device: torch.device) -> None:
    """Launches a kernel with the fault that ``tool`` is there to find."""
    source = f'extern "C" __global__ void planted(int* x, const int* fresh) {{ {PLANTED[tool]} }}\n'
    major, minor = torch.cuda.get_device_capability(device)
    options = ("--std=c++17", f"--gpu-architecture=sm_{major}{minor}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "planted.cubin"
        path.write_bytes(open_nvrtc().compile(source, "planted.cu", options).cubin)
        kernel = import_cupy().RawModule(path=str(path)).get_function("planted")
        written = torch.zeros(32, dtype=torch.int32, device=device)
        fresh = torch.empty(64, dtype=torch.int32, device=device)
        torch.cuda.synchronize()
        threads = 32 if tool in ("memcheck", "initcheck") else 64
        kernel((1,), (threads,), (np.uint64(written.data_ptr()), np.uint64(fresh.data_ptr())))
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--plain-products", action="store_true")
    parser.add_argument("--plant", choices=tuple(PLANTED))
    chosen, device = parser.parse_args(), torch.device("cuda")
    if chosen.plant:
        plant(chosen.plant, device)
        return
    if chosen.compile:
        with gathering():
            for configuration in CONFIGURATIONS:
                run(configuration, device)
        print(f"compiled {builder().compiled}")
        return
    with counted_launches() as counts, plain_products() if chosen.plain_products else nullcontext():
        for configuration in CONFIGURATIONS:
            before, start = counts.total(), time.perf_counter()
            run(configuration, device)
            torch.cuda.synchronize()
            seconds = time.perf_counter() - start
            print(f"{configuration}: {counts.total() - before} launches, {seconds:.1f} s", file=sys.stderr)
    print(f"{len(CONFIGURATIONS)} configurations, {len(counts)} kernels, {counts.total()} launches")


if __name__ == "__main__":
    main()
