"""The prioritised ring as a whole: insertion, sampling, gathering, priorities, resume."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.config import TrainerConfig
from trainer.errors import CheckpointError, ConfigError
from trainer.hyperparameters import Hyperparameters
from trainer.layout import FeatureTable, StateLayout
from trainer.replay import ReplayBuffer, Sample
from trainer.transitions import Collection

CPU = torch.device("cpu")
LAYOUT = StateLayout(goal_dim=1, prefix_dim=4, table_dim=2, achieved_offset=1, actions_per_branch=(5, 3))
STEP = torch.tensor(3)
DTYPES = [torch.float32, torch.float64]


def hyperparameters(members, dtype=torch.float32, **overrides):
    config = TrainerConfig().with_overrides(overrides)
    return Hyperparameters.stack([config] * members, dtype, CPU)


def collection_of(members, lanes, length, seed, dtype=torch.float32):
    """Random transitions; every lane is one episode, and ``row`` counts the transitions."""
    generator = torch.Generator().manual_seed(seed)
    collection = Collection.allocate(members, lanes, length, LAYOUT, dtype, CPU)
    for tensor in (collection.prefix, collection.next_prefix, collection.reward):
        tensor.normal_(generator=generator)
    for branch, actions in enumerate(LAYOUT.actions_per_branch):
        collection.action[..., branch].random_(0, actions, generator=generator)
    collection.terminated.bernoulli_(0.2, generator=generator)
    collection.row.copy_(torch.arange(lanes * length).view(lanes, length))
    collection.episode_stop.fill_(length)
    return collection


def keys_of(members):
    return torch.tensor([[7, fold] for fold in range(members)])


def member_of(value, member):
    """Cuts one member out of a Collection or Hyperparameters."""
    parts = {name: tensor[member : member + 1].clone() for name, tensor in vars(value).items()}
    return type(value)(**parts)


def filled_replay(members=1, capacity=16, lanes=2, length=4, **overrides):
    replay, hyper = (
        ReplayBuffer(members, capacity, LAYOUT, torch.float32, CPU),
        hyperparameters(members, **overrides),
    )
    replay.insert(collection_of(members, lanes, length, seed=1), hyper)
    return replay, hyper


def write(replay, hyper, index, errors, her_size=0, accept=True):
    members = replay.members
    replay.write_priorities(
        torch.tensor(index),
        torch.tensor(errors),
        torch.full((members,), her_size, dtype=torch.int32),
        torch.full((members,), accept),
        hyper,
    )


def test_a_collection_lies_lane_by_lane_in_the_ring_and_wraps():
    replay, hyper = ReplayBuffer(1, 10, LAYOUT, torch.float32, CPU), hyperparameters(1)
    for seed in (1, 2):
        replay.insert(collection_of(1, 2, 4, seed), hyper)
    rows = replay.ring_rows(torch.arange(10)[None])
    assert int(replay.written) == 16
    assert rows.episode_start.tolist() == [[8, 8, 12, 12, 12, 12, 4, 4, 8, 8]]
    assert rows.episode_stop.tolist() == [[12, 12, 16, 16, 16, 16, 8, 8, 12, 12]]
    sample = Sample(torch.arange(10)[None], torch.ones(1, 10))
    reward = torch.cat([collection_of(1, 2, 4, seed).reward.flatten() for seed in (1, 2)])
    assert (
        replay.gather(sample, None).reward[0].tolist()
        == reward[[10, 11, 12, 13, 14, 15, 6, 7, 8, 9]].tolist()
    )


def test_gathered_states_join_the_prefix_with_rows_t_and_t_plus_one_of_the_table():
    replay, _ = filled_replay(members=2)
    features = torch.arange(20.0).view(10, 2)
    table = FeatureTable(features, torch.zeros(2, 2), torch.tensor([[0.5] * 2, [0.25] * 2]))
    collection = collection_of(2, 2, 4, seed=1)
    sample = Sample(torch.tensor([[5, 0, 5], [2, 7, 1]]), torch.rand(2, 3))
    batch = replay.gather(sample, table)
    for member, scale in ((0, 0.5), (1, 0.25)):
        for row, item in enumerate(sample.index[member].tolist()):
            at = (member, item // 4, item % 4)
            now, later = features[item] * scale, features[item + 1] * scale
            assert torch.equal(batch.state[member, row], torch.cat([collection.prefix[at], now]))
            assert torch.equal(batch.next_state[member, row], torch.cat([collection.next_prefix[at], later]))
            assert batch.action[member, row].tolist() == collection.action[at].tolist()
            assert batch.reward[member, row] == collection.reward[at]
            assert batch.terminated[member, row] == collection.terminated[at]
    assert batch.action.dtype == torch.int64
    assert torch.equal(batch.weight, sample.weight)


def test_a_truncated_transition_keeps_its_bootstrap():
    replay, hyper = ReplayBuffer(1, 8, LAYOUT, torch.float32, CPU), hyperparameters(1)
    collection = collection_of(1, 1, 4, seed=1)
    collection.terminated.zero_()
    collection.truncated[..., -1] = True
    replay.insert(collection, hyper)
    batch = replay.gather(Sample(torch.tensor([[3]]), torch.ones(1, 1)), None)
    assert not bool(batch.terminated)


def test_new_items_take_the_priority_of_the_largest_error_seen_so_far():
    replay, hyper = filled_replay(per_alpha=1.0)
    assert replay.priority[0].tolist() == [pytest.approx(1.000001)] * 8 + [0.0] * 8
    write(replay, hyper, [[0, 1]], [[300.0, -6.0]])
    write(replay, hyper, [[0, 1]], [[2.0, 2.0]])
    replay.insert(collection_of(1, 1, 4, seed=2), hyper)
    assert replay.largest_error.tolist() == [300.0]
    assert replay.priority[0, 8:].tolist() == [pytest.approx(255.0)] * 4 + [0.0] * 4


def test_eight_zero_errors_are_equally_likely_and_weigh_one():
    replay, hyper = filled_replay()
    write(replay, hyper, [list(range(8))], [[0.0] * 8])
    sample = replay.sample(8, torch.tensor(0), keys_of(1), hyper)
    assert sorted(sample.index[0].tolist()) == list(range(8))
    assert sample.weight.tolist() == [[1.0] * 8]


def test_a_refused_step_leaves_every_priority_as_it_was():
    replay, hyper = filled_replay()
    before = replay.state_dict()
    write(replay, hyper, [[0, 1]], [[math.nan, 5.0]], accept=False)
    write(replay, hyper, [[0, 1]], [[math.nan, 5.0]], accept=True)
    write(replay, hyper, [[0, 1]], [[3.0, 5.0]], accept=False)
    write(replay, hyper, [[0, 1]], [[3.0, 5.0]], her_size=2)
    for name, tensor in replay.state_dict().items():
        assert torch.equal(tensor, before[name])


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(12, 20), st.integers(1, 4), st.integers(0, 1000))
def test_a_sampled_slot_is_always_filled(lanes, length, capacity, rounds, step):
    replay, hyper = ReplayBuffer(2, capacity, LAYOUT, torch.float32, CPU), hyperparameters(2)
    for seed in range(rounds):
        replay.insert(collection_of(2, lanes, length, seed), hyper)
    sample = replay.sample(16, torch.tensor(step), keys_of(2), hyper)
    assert sample.index.min() >= 0
    assert sample.index.max() < min(rounds * lanes * length, capacity)
    assert (replay.priority.gather(1, sample.index) > 0).all()
    assert torch.isfinite(sample.weight).all()


def test_the_sum_of_priorities_does_not_drift_over_two_million_updates():
    capacity, batch = 65_536, 20_000
    replay, hyper = ReplayBuffer(1, capacity, LAYOUT, torch.float32, CPU), hyperparameters(1)
    replay.insert(collection_of(1, 512, 128, seed=1), hyper)
    generator, accept = torch.Generator().manual_seed(5), torch.tensor([True])
    for _ in range(100):
        index = torch.randint(0, capacity, (1, batch), generator=generator)
        error = torch.rand(1, batch, generator=generator) * 10
        replay.write_priorities(index, error, torch.zeros(1, dtype=torch.int32), accept, hyper)
    exact = math.fsum(replay.priority[0].tolist())
    assert abs(int(replay.mass.sum()) / 2**32 - exact) / exact < 1e-9
    sample = replay.sample(1000, STEP, keys_of(1), hyper)
    assert (replay.priority.gather(1, sample.index) > 0).all()


def test_a_prefix_of_the_ring_gives_the_draws_of_the_whole_ring():
    replay, hyper = filled_replay(members=2, capacity=64)
    wide = ReplayBuffer(2, 8, LAYOUT, torch.float32, CPU)
    wide.insert(collection_of(2, 2, 4, seed=1), hyper)
    for step in range(20):
        left, right = (each.sample(5, torch.tensor(step), keys_of(2), hyper) for each in (replay, wide))
        assert torch.equal(left.index, right.index)
        assert torch.equal(left.weight, right.weight)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch_size", [1, 31, 33])
def test_a_member_of_a_stack_equals_the_same_member_alone_bit_for_bit(dtype, batch_size):
    members, capacity = 4, 40
    configs = [
        TrainerConfig().with_overrides({"per_alpha": 0.1 + 0.3 * m, "per_beta": 0.2 * m})
        for m in range(members)
    ]
    hyper, keys = Hyperparameters.stack(configs, dtype, CPU), keys_of(members)
    generator = torch.Generator().manual_seed(11)
    errors = torch.randn(6, members, batch_size, generator=generator, dtype=dtype)
    together = ReplayBuffer(members, capacity, LAYOUT, dtype, CPU)
    alone = [ReplayBuffer(1, capacity, LAYOUT, dtype, CPU) for _ in range(members)]
    none, accept = torch.zeros(members, dtype=torch.int32), torch.ones(members, dtype=torch.bool)
    for step in range(6):
        collection = collection_of(members, 3, 5, step, dtype)
        together.insert(collection, hyper)
        sample = together.sample(batch_size, torch.tensor(step), keys, hyper)
        together.write_priorities(sample.index, errors[step], none, accept, hyper)
        for m, replay in enumerate(alone):
            at, own = slice(m, m + 1), member_of(hyper, m)
            replay.insert(member_of(collection, m), own)
            single = replay.sample(batch_size, torch.tensor(step), keys[at], own)
            assert torch.equal(single.index, sample.index[at])
            assert torch.equal(single.weight, sample.weight[at])
            replay.write_priorities(single.index, errors[step, at], none[at], accept[at], own)
            assert torch.equal(replay.priority, together.priority[at])


def test_a_resumed_replay_continues_bit_for_bit():
    replay, hyper = filled_replay(members=2, capacity=20)
    write(replay, hyper, [[0, 3, 5]] * 2, [[4.0, 2.0, 0.5]] * 2)
    resumed = ReplayBuffer(2, 20, LAYOUT, torch.float32, CPU)
    resumed.insert(collection_of(2, 4, 5, seed=9), hyper)  # leftovers that must vanish
    resumed.load_state_dict(replay.state_dict())
    assert torch.equal(resumed.priority, replay.priority)
    assert torch.equal(resumed.mass, replay.mass)
    for seed in range(4):
        for each in (replay, resumed):
            each.insert(collection_of(2, 2, 4, seed), hyper)
        left, right = (each.sample(9, torch.tensor(seed), keys_of(2), hyper) for each in (replay, resumed))
        assert torch.equal(left.index, right.index)
        assert torch.equal(left.weight, right.weight)
        for name, tensor in replay.state_dict().items():
            assert torch.equal(tensor, resumed.state_dict()[name])


def test_a_checkpoint_holds_only_what_was_stored_and_is_a_copy():
    replay, hyper = filled_replay(capacity=1000)
    state = replay.state_dict()
    assert state["prefix"].shape == (1, 8, 4)
    before = state["priority"].clone()
    write(replay, hyper, [[0]], [[9.0]])
    assert torch.equal(state["priority"], before)


def test_a_checkpoint_of_another_shape_or_kind_is_refused():
    replay, _ = filled_replay(members=1)
    with pytest.raises(
        CheckpointError, match=r"replay prefix is .* \(2, 8, 4\), but the checkpoint has .* \(1, 8, 4\)"
    ):
        ReplayBuffer(2, 16, LAYOUT, torch.float32, CPU).load_state_dict(replay.state_dict())
    with pytest.raises(CheckpointError, match="float64"):
        ReplayBuffer(1, 16, LAYOUT, torch.float64, CPU).load_state_dict(replay.state_dict())
    with pytest.raises(CheckpointError, match="written"):
        ReplayBuffer(1, 16, LAYOUT, torch.float32, CPU).load_state_dict({"prefix": torch.zeros(1)})


def test_a_collection_larger_than_the_ring_is_a_configuration_error():
    replay = ReplayBuffer(1, 7, LAYOUT, torch.float32, CPU)
    with pytest.raises(
        ConfigError, match=r"replay.capacity: `episodes \* episode_length <= capacity` .* 8 > 7"
    ):
        replay.insert(collection_of(1, 2, 4, seed=1), hyperparameters(1))


def test_an_empty_replay_cannot_be_sampled():
    replay = ReplayBuffer(1, 8, LAYOUT, torch.float32, CPU)
    with pytest.raises(ValueError, match="the replay is empty"):
        replay.sample(4, STEP, keys_of(1), hyperparameters(1))


def test_a_stored_market_transition_takes_105_bytes():
    layout = StateLayout(1, 8, 48, 1, (5, 3, 3))
    assert ReplayBuffer(3, 10, layout, torch.float32, CPU).bytes_per_item() == 105
