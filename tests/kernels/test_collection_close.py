"""Episode ends and priorities of a finished collection against the reference."""

import pytest
import torch

from trainer.collector import _mark_episodes
from trainer.config import TrainerConfig
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.collection_close import collection_close
from trainer.layout import StateLayout
from trainer.replay import ReplayBuffer
from trainer.transitions import Collection

pytestmark = pytest.mark.gpu

CPU = torch.device("cpu")
LAYOUT = StateLayout(1, 2, 0, 1, (2,))


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize(("lanes", "length"), [(1, 2), (9, 1), (3, 31), (5, 32), (4, 33), (7, 64), (2, 129)])
def test_every_transition_stops_where_the_reference_says(lanes, length, share, cuda, guards):
    members, count = 2, lanes * length
    capacity, written = count + 5, 3 * count + 2  # the collection wraps around the ring's end
    generator = torch.Generator().manual_seed(length)
    collection = Collection.allocate(members, lanes, length, LAYOUT, torch.float32, CPU)
    collection.terminated.copy_(torch.rand(members, lanes, length, generator=generator) < share)
    _mark_episodes(collection)
    config = TrainerConfig().with_overrides({"per_alpha": 0.7})
    hyper = Hyperparameters.stack([config] * members, torch.float32, CPU)
    reference = ReplayBuffer(members, capacity, LAYOUT, torch.float32, CPU)
    reference.written.fill_(written)
    reference.largest_error.copy_(torch.tensor([1.0, 300.0]))
    reference.insert(collection, hyper)

    replay = ReplayBuffer(members, capacity, LAYOUT, torch.float32, cuda)
    replay.written.fill_(written)
    replay.largest_error.copy_(reference.largest_error)
    replay.rings.terminated.copy_(reference.rings.terminated)
    replay.rings = replay.rings._replace(
        episode_stop=guards.like(replay.rings.episode_stop), priority=guards.like(replay.rings.priority)
    )
    there = Hyperparameters(**{name: value.to(cuda) for name, value in vars(hyper).items()})
    collection_close(replay, there, lanes, length)
    slots = (written + torch.arange(count)) % capacity
    assert torch.equal(replay.rings.episode_stop.cpu()[:, slots], reference.rings.episode_stop[:, slots])
    torch.testing.assert_close(
        replay.priority.cpu()[:, slots], reference.priority[:, slots], rtol=1e-6, atol=0.0
    )
    others = torch.ones(capacity, dtype=torch.bool)
    others[slots] = False
    assert bool((replay.rings.episode_stop.cpu()[:, others] == -1).all())
    assert bool(torch.isnan(replay.priority.cpu()[:, others]).all())
    assert guards.intact()
