"""The fused replay on a ReplayBuffer's own rings: whole loops, capture, checkpoints."""

from dataclasses import fields
from itertools import pairwise

import pytest
import torch

from trainer.config import TrainerConfig
from trainer.errors import ConfigError
from trainer.fused.replay import FusedReplay
from trainer.fused.step_buffers import StepBuffers
from trainer.hindsight import relabel
from trainer.hyperparameters import Hyperparameters
from trainer.layout import FeatureTable, StateLayout
from trainer.replay import ReplayBuffer
from trainer.transitions import Collection

CPU = torch.device("cpu")
LAYOUT = StateLayout(1, 8, 48, 1, (5, 3, 3))
MEMBERS, LANES, LENGTH, CAPACITY, BATCH = 4, 5, 12, 150, 65
PRIORITY_TOLERANCE = 3e-6  # one unit in the last place of log(1e-6) is 1e-6 of its exponential
STRATEGIES = ("final", "future", "episode", "random")


def hyperparameters():
    configs = [
        TrainerConfig().with_overrides(
            {"batch_size": BATCH, "her_ratio": 0.2 * m, "her_strategy": STRATEGIES[m], "per_alpha": 0.3 * m}
        )
        for m in range(MEMBERS)
    ]
    return Hyperparameters.stack(configs, torch.float32, CPU)


def collection_of(seed):
    generator = torch.Generator().manual_seed(seed)
    made = Collection.allocate(MEMBERS, LANES, LENGTH, LAYOUT, torch.float32, CPU)
    for tensor in (made.prefix, made.next_prefix, made.reward):
        tensor.normal_(generator=generator)
    made.row.random_(0, 30, generator=generator)
    made.action.random_(0, 3, generator=generator)
    made.terminated.bernoulli_(0.1, generator=generator)
    made.episode_stop.fill_(LENGTH)
    return made


def table_of():
    generator = torch.Generator().manual_seed(99)
    features, center = torch.randn(31, 48, generator=generator), torch.randn(MEMBERS, 48, generator=generator)
    return FeatureTable(features, center, torch.rand(MEMBERS, 48, generator=generator) + 0.5)


def moved(value, device):
    tensors = {name: part for name, part in vars(value).items() if isinstance(part, torch.Tensor)}
    return type(value)(**{name: tensor.to(device) for name, tensor in tensors.items()})


def keys_of(device=CPU):
    return torch.tensor([[3, fold] for fold in range(MEMBERS)], device=device)


def errors_of(step):
    generator = torch.Generator().manual_seed(1000 + step)
    return torch.exp(2.0 * torch.randn(MEMBERS, BATCH, generator=generator))


def fused_on(device, collections=0):
    replay = ReplayBuffer(MEMBERS, CAPACITY, LAYOUT, torch.float32, device)
    fused, hyper = FusedReplay(replay, moved(table_of(), device)), moved(hyperparameters(), device)
    for seed in range(collections):
        fused.insert(moved(collection_of(seed), device), hyper)
    return fused, hyper, StepBuffers.allocate(MEMBERS, BATCH, LAYOUT, torch.float32, device)


def assert_same_rows(buffers, batch):
    assert torch.equal(buffers.index.cpu(), batch.index.int())
    assert torch.equal(buffers.reward.cpu(), batch.reward)
    assert torch.equal(buffers.action.cpu(), batch.action.to(torch.uint8))
    assert torch.equal(buffers.terminated.cpu(), batch.terminated)
    assert torch.equal(buffers.state[0, ..., : LAYOUT.state_dim].cpu(), batch.state)
    assert torch.equal(buffers.state[2, ..., : LAYOUT.state_dim].cpu(), batch.next_state)
    torch.testing.assert_close(buffers.importance_weight().cpu(), batch.weight, rtol=1e-6, atol=0.0)


def test_rings_of_another_precision_are_refused():
    replay = ReplayBuffer(1, 8, LAYOUT, torch.float64, CPU)
    with pytest.raises(ValueError, match=r"the fused replay needs float32 rings, but got torch\.float64"):
        FusedReplay(replay, None)


def test_a_collection_larger_than_the_ring_is_a_configuration_error():
    fused = FusedReplay(ReplayBuffer(MEMBERS, LANES * LENGTH - 1, LAYOUT, torch.float32, CPU), None)
    with pytest.raises(ConfigError, match=r"`episodes \* episode_length <= capacity` .* 60 > 59"):
        fused.insert(collection_of(0), hyperparameters())


def test_an_empty_replay_cannot_be_sampled():
    fused, hyper, buffers = fused_on(CPU)
    for draw in (fused.sample_into, fused.draw_into):
        with pytest.raises(ValueError, match="the replay is empty"):
            draw(buffers, torch.tensor(0), keys_of(), hyper)


@pytest.mark.gpu
def test_epochs_of_inserting_sampling_and_writing_follow_the_reference(cuda):
    """Priorities of one are given to the other after each step, for their last bits differ by library."""
    fused, hyper, buffers = fused_on(cuda)
    reference, table, plain = (
        ReplayBuffer(MEMBERS, CAPACITY, LAYOUT, torch.float32, CPU),
        table_of(),
        hyperparameters(),
    )
    accept = torch.tensor([True, True, False, True])
    buffers.accept.copy_(accept)
    for step in range(12):
        if step % 3 == 0:
            collection = collection_of(step)
            reference.insert(collection, plain)
            fused.insert(moved(collection, cuda), hyper)
        at = torch.tensor(step)
        batch = reference.gather(reference.sample(BATCH, at, keys_of(), plain), table)
        batch = relabel(batch, reference, at, keys_of(), plain)
        fused.sample_into(buffers, at.to(cuda), keys_of(cuda), hyper)
        assert_same_rows(buffers, batch)
        reference.write_priorities(batch.index, errors_of(step), plain.her_size, accept, plain)
        buffers.td_error.copy_(errors_of(step))
        fused.write_priorities(buffers, hyper)
        torch.testing.assert_close(
            fused.replay.priority.cpu(), reference.priority, rtol=PRIORITY_TOLERANCE, atol=0.0
        )
        assert torch.equal(fused.replay.largest_error.cpu(), reference.largest_error)
        fused.replay.priority.copy_(reference.priority)
    assert int(fused.replay.written) == int(reference.written) == 4 * LANES * LENGTH


@pytest.mark.gpu
def test_drawing_alone_gives_the_slots_of_the_whole_sample(cuda):
    fused, hyper, buffers = fused_on(cuda, collections=3)
    step = torch.tensor(8, device=cuda)
    fused.sample_into(buffers, step, keys_of(cuda), hyper)
    whole = buffers.index.clone(), buffers.largest_weight.clone()
    buffers.index.fill_(-1)
    fused.draw_into(buffers, step, keys_of(cuda), hyper)
    assert torch.equal(buffers.index, whole[0])
    assert torch.equal(buffers.largest_weight, whole[1])
    assert (buffers.weight > 0.0).all()


@pytest.mark.gpu
def test_a_replayed_graph_draws_anew_at_every_step_and_equals_eager_launches(cuda):
    eager, hyper, eager_buffers = fused_on(cuda, collections=3)
    captured, captured_hyper, buffers = fused_on(cuda, collections=3)
    step, keys = torch.zeros((), dtype=torch.int64, device=cuda), keys_of(cuda)
    for each in (buffers, eager_buffers):
        each.accept.fill_(1)

    def advance():
        captured.sample_into(buffers, step, keys, captured_hyper)
        torch.abs(buffers.reward, out=buffers.td_error)
        captured.write_priorities(buffers, captured_hyper)
        step.add_(1)

    before = captured.replay.state_dict()
    advance()  # compiles
    captured.replay.load_state_dict(before)
    step.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        advance()
    drawn = []
    for number in range(6):
        if number == 3:  # a searched scalar, overwritten in place between replays
            for each in (hyper, captured_hyper):
                each.her_size.fill_(BATCH)
                each.per_beta.fill_(0.9)
        graph.replay()
        eager.sample_into(eager_buffers, torch.tensor(number, device=cuda), keys, hyper)
        torch.abs(eager_buffers.reward, out=eager_buffers.td_error)
        eager.write_priorities(eager_buffers, hyper)
        for field in fields(StepBuffers):
            left, right = (getattr(each, field.name) for each in (buffers, eager_buffers))
            assert torch.equal(left, right), (number, field.name)
        assert torch.equal(captured.replay.priority, eager.replay.priority)
        drawn.append(buffers.index.clone())
    assert all(not torch.equal(one, other) for one, other in pairwise(drawn))


@pytest.mark.gpu
def test_a_captured_insert_follows_the_write_cursor(cuda):
    captured, hyper, _ = fused_on(cuda, collections=1)
    eager, _, _ = fused_on(cuda, collections=1)
    collection = moved(collection_of(50), cuda)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured.insert(collection, hyper)
    for _ in range(3):
        graph.replay()
        eager.insert(collection, hyper)
    left, right = captured.replay.state_dict(), eager.replay.state_dict()
    assert all(torch.equal(left[name], right[name]) for name in right)


@pytest.mark.gpu
def test_a_resumed_replay_continues_bit_for_bit(cuda):
    first, hyper, buffers = fused_on(cuda, collections=2)
    buffers.accept.fill_(1)
    second, _, other = fused_on(cuda, collections=1)
    other.accept.fill_(1)
    first.sample_into(buffers, torch.tensor(0, device=cuda), keys_of(cuda), hyper)
    buffers.td_error.copy_(errors_of(0))
    first.write_priorities(buffers, hyper)
    second.replay.load_state_dict(first.replay.state_dict())
    for step in (1, 2):
        for fused, rows in ((first, buffers), (second, other)):
            fused.sample_into(rows, torch.tensor(step, device=cuda), keys_of(cuda), hyper)
            rows.td_error.copy_(errors_of(step))
            fused.write_priorities(rows, hyper)
        assert all(
            torch.equal(getattr(buffers, each.name), getattr(other, each.name)) for each in fields(buffers)
        )
    assert torch.equal(first.replay.priority, second.replay.priority)


@pytest.mark.gpu
def test_the_reference_samples_a_fused_ring_once_its_masses_are_recomputed(cuda):
    fused, hyper, buffers = fused_on(cuda, collections=2)
    buffers.accept.fill_(1)
    step = torch.tensor(0, device=cuda)
    fused.sample_into(buffers, step, keys_of(cuda), hyper)
    buffers.td_error.copy_(errors_of(0))
    fused.write_priorities(buffers, hyper)
    fused.replay.recompute_mass()
    sample = fused.replay.sample(BATCH, step + 1, keys_of(cuda), hyper)
    fused.sample_into(buffers, step + 1, keys_of(cuda), hyper)
    assert torch.equal(buffers.index, sample.index.int())
