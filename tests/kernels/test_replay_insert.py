"""The inserting kernel against ReplayBuffer.insert: the same ring, slot by slot."""

import pytest
import torch

from trainer.config import TrainerConfig
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.replay_insert import replay_insert
from trainer.layout import StateLayout
from trainer.replay import ReplayBuffer, Rings

pytestmark = pytest.mark.gpu

CPU = torch.device("cpu")
PRIORITY_TOLERANCE = 3e-6  # one unit in the last place of log(1e-6) is 1e-6 of its exponential
LAYOUTS = [
    StateLayout(1, 1, 0, 0, (2,)),
    StateLayout(1, 8, 48, 1, (5, 3, 3)),
    StateLayout(7, 15, 48, 7, (3,) * 4),
]


def hyperparameters(members):
    configs = [TrainerConfig().with_overrides({"per_alpha": 0.5 * m}) for m in range(members)]
    return Hyperparameters.stack(configs, torch.float32, CPU)


def moved(value, device):
    return type(value)(**{name: tensor.to(device) for name, tensor in vars(value).items()})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("lanes", "length", "capacity"), [(1, 1, 1), (3, 5, 15), (3, 21, 70), (7, 33, 1000), (4, 64, 257)]
)
def test_three_collections_lie_in_the_ring_as_the_reference_puts_them(
    layout, lanes, length, capacity, cuda, guards, make_collection
):
    members = 3
    hyper, expected = hyperparameters(members), ReplayBuffer(members, capacity, layout, torch.float32, CPU)
    expected.largest_error.copy_(torch.tensor([1.0, 300.0, 7.5]))
    rings = Rings(*(guards.like(ring.to(cuda)).zero_() for ring in expected.rings))
    largest, written = expected.largest_error.to(cuda), torch.zeros((), dtype=torch.int64, device=cuda)
    for seed in range(3):
        collection = make_collection(layout, members, lanes, length, seed)
        expected.insert(collection, hyper)
        replay_insert(moved(collection, cuda), rings, largest, written, moved(hyper, cuda))
        written += lanes * length
    assert guards.intact()
    for name, ring in rings._asdict().items():
        if name != "priority":
            assert torch.equal(ring.cpu(), getattr(expected.rings, name)), name
    torch.testing.assert_close(
        rings.priority.cpu(), expected.rings.priority, rtol=PRIORITY_TOLERANCE, atol=0.0
    )


def test_a_cursor_beyond_32_bits_finds_the_same_slots(cuda, make_collection):
    layout, capacity, before = LAYOUTS[1], 50, 2**33 + 11
    hyper, collection = hyperparameters(1), make_collection(LAYOUTS[1], 1, 2, 12, 4)
    expected = ReplayBuffer(1, capacity, layout, torch.float32, CPU)
    expected.written.fill_(before)
    expected.insert(collection, hyper)
    actual = ReplayBuffer(1, capacity, layout, torch.float32, cuda)
    actual.written.fill_(before)
    replay_insert(
        moved(collection, cuda), actual.rings, actual.largest_error, actual.written, moved(hyper, cuda)
    )
    assert torch.equal(actual.rings.episode_start.cpu(), expected.rings.episode_start)
    assert torch.equal(actual.rings.prefix.cpu(), expected.rings.prefix)
