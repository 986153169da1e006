"""Whole steps over states and batches that no vector width divides, every tensor between guard words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from trainer.collector import collect
from trainer.fused.agent import FusedAgent
from trainer.fused.collector import CollectionCounters, FusedCollector
from trainer.replay import ReplayBuffer
from trainer.transitions import Collection

CPU = torch.device("cpu")

GUARD_BYTES = 256
GUARD_WORD = 0xA5
FACTORIES = {
    torch.zeros,
    torch.empty,
    torch.ones,
    torch.full,
    torch.tensor,
    torch.zeros_like,
    torch.full_like,
}
STATES = (1, 3, 7, 13, 31, 33, 63, 127)
BATCHES = (1, 31, 33, 257, 1000)
EVERY_PAIR = [(state, batch) for state in STATES for batch in BATCHES]
SOME_PAIRS = [  # every state twice, every batch three times or more
    (state, BATCHES[(number + shift) % len(BATCHES)])
    for number, state in enumerate(STATES)
    for shift in (0, 2)
]
OTHER_SHAPES = [  # S, B, Z, branches, trunk
    (1, 257, 2, (3,), (33,)),
    (7, 31, 101, (3, 3, 3, 3), (33, 20)),
    (33, 1, 2, (5, 3, 3), (20,)),
    (56, 257, 101, (3,), (20, 33, 9)),
    (63, 31, 2, (3, 3, 3, 3), (33, 20)),
    (56, 1, 51, (5, 3, 3), (33,)),
]
NETWORKS = {"trunk_widths": (33, 20), "head_width": 17, "num_atoms": 51, "max_norm": 1e9}
GRADIENT = 3e-3  # a rectifier whose input is a rounding error away from 0 may open in one precision alone


class GuardedMemory(TorchFunctionMode):
    """Moves every tensor that is made on ``device`` in its ``with`` block between guard words."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._storages: list[Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in FACTORIES and made.device.type == self._device.type:
            return self._moved(made)
        return made

    def _moved(self, made: Tensor) -> Tensor:
        # torch has switched this mode off in here, so the storage itself is not guarded again
        size = made.numel() * made.element_size()
        storage = torch.full((size + 2 * GUARD_BYTES,), GUARD_WORD, dtype=torch.uint8, device=made.device)
        self._storages.append(storage)
        inside = storage[GUARD_BYTES : GUARD_BYTES + size].view(made.dtype).view(made.shape)
        return inside.copy_(made)

    @property
    def count(self) -> int:
        """Tensors that were moved."""
        return len(self._storages)

    def intact(self) -> bool:
        """True where no guard word has changed."""
        edges = [part for each in self._storages for part in (each[:GUARD_BYTES], each[-GUARD_BYTES:])]
        return bool((torch.stack(edges) == GUARD_WORD).all())


@pytest.fixture
def make_guarded(make_twins):
    """Builds both agents as ``make_twins`` does, with guard words round the tensors of the fused one."""

    def build(device: torch.device, **shape: object):
        memory = GuardedMemory(device)
        with memory:
            twins = make_twins(device=device, **(NETWORKS | shape))
        return twins, memory

    return build


def relative(ours, theirs):
    ours, theirs = ours.cpu().double(), theirs.double()
    return float(((ours - theirs).norm(dim=-1) / theirs.norm(dim=-1).clamp(min=1e-30)).max())


def test_a_write_beside_a_guarded_tensor_is_noticed():
    memory = GuardedMemory(torch.device("cpu"))
    with memory:
        one, other = torch.zeros((3, 5)), torch.full((2,), 7, dtype=torch.int32)
    assert memory.count == 2
    assert (one.sum(), other.tolist()) == (0.0, [7, 7])
    one += 1.0
    assert memory.intact()
    one.as_strided((1,), (1,), one.storage_offset() + one.numel()).fill_(3.0)
    assert not memory.intact()


def test_the_tensors_of_an_agent_lie_between_guard_words(make_guarded):
    twins, memory = make_guarded(torch.device("cpu"), state_dim=7, batch_size=31)
    storages = {each.untyped_storage().data_ptr() for each in memory._storages}
    agent, buffers = twins.fused, twins.buffers
    tensors = [*vars(buffers).values(), agent.networks.q.value, agent.networks.q.gradient]
    tensors += [agent.networks.value.value, agent.networks.value.first, twins.hyper.gamma]
    assert [each.untyped_storage().data_ptr() in storages for each in tensors] == [True] * len(tensors)
    assert memory.intact()


def assert_steps_agree(twins, memory):
    """One step of both agents: the same errors and gradients, no guard word written over."""
    result = twins.reference.update(twins.batch(1))
    twins.fused.update(twins.buffers)
    assert memory.intact()
    td_error = twins.buffers.td_error.cpu().double()
    torch.testing.assert_close(td_error, result.td_error, rtol=1e-4, atol=1e-6)
    networks = twins.fused.networks
    pairs = [(networks.q, twins.reference._q.block)]
    if networks.value is not None:
        pairs.append((networks.value, twins.reference._value.block))
    for kind, block in pairs:
        assert relative(kind.export(kind.gradient[:, 0]), block.gradient) < GRADIENT


def assert_bf16_step_is_close(twins, memory):
    result = twins.reference.update(twins.batch(1))
    twins.fused.update(twins.buffers)
    assert memory.intact()
    td_error = twins.buffers.td_error.cpu().double()
    torch.testing.assert_close(td_error, result.td_error, rtol=5e-2, atol=5e-2)
    assert twins.buffers.accept.tolist() == [1, 1]


def test_some_pairs_hold_every_state_and_every_batch():
    assert {state for state, _ in SOME_PAIRS} == set(STATES)
    assert {batch for _, batch in SOME_PAIRS} == set(BATCHES)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("state_dim", "batch", "use_iql"),
    [(*pair, True) for pair in EVERY_PAIR] + [(*pair, False) for pair in SOME_PAIRS],
)
def test_a_whole_step_equals_the_reference_and_leaves_the_guard_words(
    make_guarded, cuda, state_dim, batch, use_iql
):
    assert_steps_agree(*make_guarded(cuda, state_dim=state_dim, batch_size=batch, use_iql=use_iql))


@pytest.mark.gpu
@pytest.mark.parametrize(("state_dim", "batch"), SOME_PAIRS)
def test_a_whole_step_in_bf16_leaves_the_guard_words(make_guarded, cuda, state_dim, batch):
    assert_bf16_step_is_close(*make_guarded(cuda, state_dim=state_dim, batch_size=batch, precision="bf16"))


@pytest.mark.gpu
@pytest.mark.parametrize("use_iql", [True, False])
@pytest.mark.parametrize(("state_dim", "batch", "num_atoms", "branches", "trunk_widths"), OTHER_SHAPES)
def test_other_atoms_branches_and_layers_equal_the_reference_and_leave_the_guard_words(
    make_guarded, cuda, state_dim, batch, num_atoms, branches, trunk_widths, use_iql
):
    shape = {
        "state_dim": state_dim,
        "batch_size": batch,
        "num_atoms": num_atoms,
        "branches": branches,
        "trunk_widths": trunk_widths,
        "use_iql": use_iql,
    }
    assert_steps_agree(*make_guarded(cuda, **shape))
    assert_bf16_step_is_close(*make_guarded(cuda, **shape, precision="bf16"))


def one_step_a_lane(case):
    """The case with L = 1, which a configuration does not offer and the kernels hold for."""
    environment = case.config.environment.model_copy(update={"episode_length": 1})
    return replace(case, config=case.config.model_copy(update={"environment": environment}))


@pytest.mark.gpu
@pytest.mark.parametrize(("state_dim", "branches"), [(33, (3,)), (56, (5, 3, 3)), (63, (3, 3, 3, 3))])
@pytest.mark.parametrize("graphed", [True, False])
def test_lanes_of_one_step_are_those_of_the_reference_for_the_same_actions(
    make_market_case, cuda, state_dim, branches, graphed
):
    made = make_market_case(
        3, state_dim - 8, wild=True, actions_per_branch=branches, **(NETWORKS | {"batch_size": 8})
    )
    case = one_step_a_lane(made)
    assert case.layout.state_dim == state_dim
    there, members, lanes = case.on(cuda), case.tables.members, case.config.environment.episodes
    agent = FusedAgent(case.config, case.layout, there.hyper, there.keys, cuda, "fp32")
    stores = [
        ReplayBuffer(members, 4 * lanes - 1, case.layout, torch.float32, device) for device in (cuda, CPU)
    ]
    counter = torch.zeros((), dtype=torch.int64, device=cuda)
    collector = FusedCollector(
        there.tables,
        case.config,
        there.hyper,
        there.keys,
        agent.networks,
        stores[0],
        CollectionCounters(counter, counter.clone()),
        "fp32",
        graphed=graphed,
    )
    environment = case.environment()
    collection = Collection.allocate(members, lanes, 1, case.layout, torch.float32, CPU)
    for number in range(6):
        collector.collect()
        slots = (number * lanes + torch.arange(lanes)) % stores[0].capacity
        action = stores[0].rings.action.cpu()[:, slots].long()
        collect(environment, lambda _, action=action: action, collection)
        stores[1].insert(collection, case.hyper)
    ours, theirs = (store.state_dict() for store in stores)
    for name, expected in theirs.items():
        actual = ours[name].cpu()
        assert torch.isclose(actual, expected, rtol=2e-6, atol=2e-6, equal_nan=True).all(), name
