"""The whole Q network for one row per member, and its greedy action, against the layers one by one."""

import types

import pytest
import torch

from trainer.config import TrainerConfig
from trainer.fused.networks import FusedNetworks
from trainer.fused.shapes import FusedShapes
from trainer.fused.workspaces import QWorkspace
from trainer.graph import GraphedCallable
from trainer.hyperparameters import Hyperparameters
from trainer.kernels import greedy_row as kernel
from trainer.kernels.greedy_row import cluster_of, fits, greedy_row, shared_bytes
from trainer.layout import StateLayout
from trainer.reference.advantage_policy import greedy_actions
from trainer.reference.c51_support import expected_value, support
from trainer.reference.dueling_logits import dueling_logits

DEFAULT = FusedShapes(56, (256, 256), 128, 51, (5, 3, 3))
SMALL = {"trunk_widths": (24, 20), "head_width": 12, "num_atoms": 21}


@pytest.mark.parametrize(
    ("members", "major", "processors", "expected"),
    [
        (1, 9, 132, 8),
        (15, 9, 132, 8),
        (33, 9, 132, 8),
        (34, 9, 132, 4),
        (60, 9, 132, 4),
        (133, 9, 132, 1),
        (300, 9, 132, 1),
        (15, 8, 108, 1),
        (1, 12, 84, 8),
    ],
)
def test_a_small_stack_is_spread_over_the_processors(members, major, processors, expected, monkeypatch):
    device = types.SimpleNamespace(major=major, multi_processor_count=processors)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: device)
    assert cluster_of(members, torch.device("cuda")) == expected


def test_the_default_networks_need_little_shared_memory():
    # widest 680 = 672 logits + 8, twice; trunk: 4 packs of 8 columns a block, 128 slices of 32 + 4 sums
    assert shared_bytes(DEFAULT, torch.bfloat16, 8) == 4 * (2 * 680 + 128 * 36)


def test_layers_beyond_the_shared_memory_of_a_block_do_not_fit():
    assert fits(DEFAULT, torch.float32)
    assert fits(DEFAULT, torch.bfloat16)
    assert not fits(FusedShapes(56, (16384,), 128, 51, (5, 3, 3)), torch.bfloat16)


class Row:
    """Random networks and one state each; the layers one by one as the expectation."""

    def __init__(
        self, device, guards, members=3, branches=(5, 3, 3), state_dim=56, dtype=torch.float32, **keys
    ):
        config = TrainerConfig().with_overrides({"actions_per_branch": branches, **keys})
        layout = StateLayout(0, state_dim, 0, 0, branches)
        keys = torch.tensor([[1, member] for member in range(members)], device=device)
        self.hyper = Hyperparameters.stack([config] * members, torch.float32, device)
        networks = self.networks = FusedNetworks(config.agent, layout, keys, dtype, device)
        shapes, self.branches = networks.shapes, branches
        generator = torch.Generator(device).manual_seed(state_dim)
        networks.output_bias.normal_(std=0.3, generator=generator)
        for matrix in networks.q.block.matrices[:-2]:
            networks.q.weights(matrix.name, slice(0, members))[:, matrix.decays[0]].normal_(
                std=0.2, generator=generator
            )
        self.state = torch.zeros((members, 1, shapes.state_pitch), dtype=dtype, device=device)
        self.state[..., :state_dim].normal_(generator=generator)
        self.state[..., state_dim] = 1.0
        self.q = QWorkspace.allocate(shapes, members, 1, dtype, device)
        self.logits = guards.like(self.q.logits)
        self.action = guards.like(torch.zeros((members, 1, len(branches)), dtype=torch.uint8, device=device))

    def run(self):
        greedy_row(self.networks, self.state, self.logits, self.hyper, self.action)

    def greedy(self):
        shapes, hyper = self.networks.shapes, self.hyper
        head = (self.logits + self.networks.output_bias[:, None]).double().cpu()
        head = head.unflatten(2, (shapes.head_rows, shapes.atom_pitch))[..., : shapes.num_atoms]
        atoms = support(hyper.v_min.double().cpu(), hyper.v_max.double().cpu(), shapes.num_atoms)
        probs = torch.softmax(dueling_logits(head, self.branches), -1)
        return greedy_actions(expected_value(probs, atoms), self.branches)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"members": 15},
        {"members": 60, **SMALL},
        {"members": 150, **SMALL},
        {"state_dim": 1, "branches": (3,), "num_atoms": 2, "trunk_widths": (33, 7), "head_width": 5},
        {"state_dim": 63, "branches": (11, 11, 11, 11), "trunk_widths": (40,)},
        {"state_dim": 33, "branches": (3, 3, 3, 3), "num_atoms": 101, "trunk_widths": (24, 20, 16)},
        {"members": 1, "trunk_widths": (3000, 40), "head_width": 700},
    ],
)
def test_logits_equal_those_of_the_layers_and_the_action_is_their_best(changes, dtype, cuda, guards):
    row = Row(cuda, guards, dtype=dtype, **changes)
    row.run()
    row.networks.q_forward(row.state, row.q)
    tolerance = 2e-5 if dtype == torch.float32 else 5e-3  # a bfloat16 activation may round the other way
    torch.testing.assert_close(row.logits, row.q.logits, rtol=tolerance, atol=tolerance)
    assert torch.equal(row.action.cpu().long(), row.greedy())
    assert guards.intact()


@pytest.mark.gpu
@pytest.mark.parametrize("cluster", [1, 2, 4, 8])
def test_the_number_of_processors_changes_sums_by_roundings_alone(cluster, cuda, guards, monkeypatch):
    if torch.cuda.get_device_capability()[0] < 9:
        cluster = 1
    expected, row = Row(cuda, guards), Row(cuda, guards)
    expected.run()
    monkeypatch.setattr(kernel, "cluster_of", lambda *_: cluster)
    row.run()
    torch.testing.assert_close(row.logits, expected.logits, rtol=1e-5, atol=1e-6)
    assert guards.intact()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_two_launches_and_a_replay_agree_bit_for_bit(dtype, cuda, guards):
    row = Row(cuda, guards, members=15, dtype=dtype)
    row.run()
    first = row.logits.clone(), row.action.clone()
    row.run()
    assert torch.equal(row.logits, first[0])
    graph = GraphedCallable(row.run, lambda: None)
    row.logits.fill_(float("nan"))
    row.action.fill_(255)
    graph.replay()
    assert torch.equal(row.logits, first[0])
    assert torch.equal(row.action, first[1])


@pytest.mark.gpu
def test_a_weight_that_is_not_finite_reaches_the_logits(cuda, guards):
    row = Row(cuda, guards, **SMALL)
    row.networks.q.weights("trunk.0", slice(1, 2))[0, 3, 5] = float("nan")
    row.run()
    finite = row.logits.isfinite().all(-1).all(-1)
    assert finite.tolist() == [True, False, True]
