"""Relabelling of sampled batches: known goals, wrapped rings, ratios, bit equality."""

from dataclasses import fields, replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trainer.config import TrainerConfig
from trainer.errors import ConfigError
from trainer.hindsight import relabel
from trainer.hyperparameters import STRATEGIES, Hyperparameters
from trainer.layout import FeatureTable, StateLayout
from trainer.reference.philox import Purpose, draw
from trainer.reference.prioritised_sample import strata
from trainer.replay import ReplayBuffer, Sample
from trainer.transitions import Batch, Collection

CPU = torch.device("cpu")
DESIRED = 99.0  # a goal that no transition achieves


def layout_of(achieved_offset=1):
    return StateLayout(1, 1 + achieved_offset, 0, achieved_offset, (5, 3))


def hyperparameters(members=1, **overrides):
    config = TrainerConfig().with_overrides({"batch_size": 1, "her_ratio": 1.0} | overrides)
    return Hyperparameters.stack([config] * members, torch.float32, CPU)


def keys_of(members):
    return torch.tensor([[7, fold] for fold in range(members)])


def counting_collection(lanes, length, first=0, members=1, achieved_offset=1):
    """Transition number i leads from achieved goal i to i + 1; every lane is one episode."""
    layout = layout_of(achieved_offset)
    collection = Collection.allocate(members, lanes, length, layout, torch.float32, CPU)
    number = torch.arange(first, first + lanes * length).view(lanes, length).float()
    collection.prefix[..., 0] = DESIRED
    collection.next_prefix[..., 0] = DESIRED
    collection.prefix[..., achieved_offset] = number
    collection.next_prefix[..., achieved_offset] = number + 1
    collection.reward.fill_(0.25)
    collection.action[..., 0] = 3
    collection.terminated[..., -1] = True
    collection.episode_stop.fill_(length)
    return collection


def one_episode(hyper, achieved_offset=1):
    """A ring with one episode of three steps, achieved goals 0 -> 1 -> 2 -> 3."""
    replay = ReplayBuffer(1, 8, layout_of(achieved_offset), torch.float32, CPU)
    replay.insert(counting_collection(1, 3, achieved_offset=achieved_offset), hyper)
    return replay


def goals(replay, hyper, slot, count, step=0):
    """Relabels ``count`` copies of one slot and returns (goal, reward) of every row."""
    index = torch.full((replay.members, count), slot)
    hyper = replace(hyper, her_size=torch.full((replay.members,), count, dtype=torch.int32))
    batch = replay.gather(Sample(index, torch.ones(replay.members, count)), None)
    changed = relabel(batch, replay, torch.tensor(step), keys_of(replay.members), hyper)
    assert torch.equal(changed.state[..., 0], changed.next_state[..., 0])
    return changed.state[..., 0], changed.reward


def counts(goal):
    values, number = goal.unique(return_counts=True)
    return dict(zip(values.tolist(), number.tolist(), strict=True))


@pytest.mark.parametrize("achieved_offset", [0, 1])
def test_final_is_the_last_state_of_the_episode_for_every_row(achieved_offset):
    hyper = hyperparameters(her_strategy="final")
    replay = one_episode(hyper, achieved_offset)
    for slot in range(3):
        goal, reward = goals(replay, hyper, slot, 50)
        assert counts(goal) == {3.0: 50}
        assert (reward == (1.0 if slot == 2 else torch.tensor(-0.01))).all()


def test_future_with_offset_zero_takes_the_three_goals_ahead_equally_often_and_never_the_present():
    hyper = hyperparameters(her_future_offset=0)
    replay = one_episode(hyper)
    goal, reward = goals(replay, hyper, 0, 30_000)
    assert counts(goal).keys() == {1.0, 2.0, 3.0}
    assert all(abs(number - 10_000) <= 245 for number in counts(goal).values())
    assert torch.equal(reward, torch.where(goal == 1.0, 1.0, torch.tensor(-0.01)))


def test_future_with_offset_one_takes_the_two_later_goals_equally_often():
    hyper = hyperparameters()
    goal, reward = goals(one_episode(hyper), hyper, 0, 30_000)
    assert counts(goal).keys() == {2.0, 3.0}
    assert all(abs(number - 15_000) <= 260 for number in counts(goal).values())
    assert (reward == torch.tensor(-0.01)).all()


@pytest.mark.parametrize("offset", [0, 1])
def test_the_last_row_of_an_episode_has_only_its_own_next_state_ahead(offset):
    hyper = hyperparameters(her_future_offset=offset)
    goal, reward = goals(one_episode(hyper), hyper, 2, 1000)
    assert counts(goal) == {3.0: 1000}
    assert (reward == 1.0).all()


@pytest.mark.parametrize("strategy", ["episode", "random"])
@pytest.mark.parametrize("slot", [0, 1, 2])
def test_episode_and_random_take_every_achieved_goal_equally_often(strategy, slot):
    hyper = hyperparameters(her_strategy=strategy)
    goal, _ = goals(one_episode(hyper), hyper, slot, 30_000)
    assert counts(goal).keys() == {1.0, 2.0, 3.0}
    assert all(abs(number - 10_000) <= 245 for number in counts(goal).values())


def test_a_donor_is_decided_by_the_first_word_of_the_donor_purpose_of_its_row():
    hyper = hyperparameters(her_strategy="random")
    goal, _ = goals(one_episode(hyper), hyper, 0, 40, step=6)
    word = draw(keys_of(1), Purpose.DONOR, torch.tensor(6), torch.arange(40))[..., 0]
    assert goal.tolist() == [[1.0 + (each * 3 >> 32) for each in word[0].tolist()]]


def wrapped_ring(hyper):
    """Sixteen slots after four episodes of five: e3 = 15, 0 .. 3; orphan 4; e1 = 5 .. 9; e2 = 10 .. 14."""
    replay = ReplayBuffer(1, 16, layout_of(), torch.float32, CPU)
    for episode in range(4):
        replay.insert(counting_collection(1, 5, first=5 * episode), hyper)
    return replay


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_in_a_wrapped_ring_no_slot_takes_a_goal_of_another_episode(strategy):
    hyper = hyperparameters(her_strategy=strategy)
    replay = wrapped_ring(hyper)
    number = replay.achieved_goal(torch.arange(16)[None])[0, :, 0] - 1.0  # transition of every slot
    assert number.tolist() == [*range(16, 20), *range(4, 16)]
    for slot in range(16):
        own = int(number[slot])
        first, last = own - own % 5, own - own % 5 + 4
        expected = {
            "final": {last},
            "future": set(range(own + 1, last + 1)) or {own},
            "episode": set(range(first, last + 1)),
            "random": set(range(4, 20)),
        }[strategy]
        if own == 4 and strategy != "random":
            expected = {4}
        goal, _ = goals(replay, hyper, slot, 400)
        assert {round(value) - 1 for value in counts(goal)} == expected


def sampled(ratio, size, step=0, members=2, **overrides):
    """Returns the batch before and after relabelling with ``ratio``."""
    hyper = hyperparameters(members, her_ratio=ratio, batch_size=size, **overrides)
    replay = ReplayBuffer(members, 64, layout_of(), torch.float32, CPU)
    replay.insert(counting_collection(6, 10, members=members), hyper)
    td_error = torch.linspace(0.1, 5.0, 60).repeat(members, 1)
    none, accept = torch.zeros(members, dtype=torch.int32), torch.ones(members, dtype=torch.bool)
    replay.write_priorities(torch.arange(60).repeat(members, 1), td_error, none, accept, hyper)
    at, keys = torch.tensor(step), keys_of(members)
    batch = replay.gather(replay.sample(size, at, keys, hyper), None)
    return batch, relabel(batch, replay, at, keys, hyper)


def same(left: Batch, right: Batch, rows: slice) -> bool:
    return all(
        torch.equal(getattr(left, field.name)[:, rows], getattr(right, field.name)[:, rows])
        for field in fields(Batch)
    )


@pytest.mark.parametrize("size", [32, 33])
def test_a_ratio_of_zero_is_bit_equal_to_no_relabelling(size):
    before, after = sampled(0.0, size)
    assert same(before, after, slice(None))


@pytest.mark.parametrize(
    ("ratio", "size", "relabelled"), [(0.8, 32, 25), (0.8, 33, 26), (1.0, 32, 32), (1.0, 33, 33)]
)
def test_the_first_rows_are_relabelled_and_the_others_pass_bit_for_bit(ratio, size, relabelled):
    before, after = sampled(ratio, size)
    assert (after.state[:, :relabelled, 0] != DESIRED).all()
    assert torch.equal(after.state[:, :relabelled, 0], after.next_state[:, :relabelled, 0])
    achieved = after.next_state[:, :relabelled, 1]
    reached = achieved == after.state[:, :relabelled, 0]
    assert torch.equal(after.reward[:, :relabelled], torch.where(reached, 1.0, torch.tensor(-0.01)))
    assert same(before, after, slice(relabelled, None))
    for name in ("index", "action", "terminated", "weight"):
        assert torch.equal(getattr(before, name), getattr(after, name))


@pytest.mark.parametrize("ratio", [-0.1, 1.2])
def test_a_ratio_outside_zero_to_one_is_refused_by_name(ratio):
    with pytest.raises(ConfigError) as refused:
        hyperparameters(her_ratio=ratio)
    assert str(refused.value) == (
        f"hindsight.her_ratio: `0 <= her_ratio <= 1` must hold, but got {ratio}; give a value in [0, 1]"
    )


def test_relabelled_rows_weigh_one_where_the_plain_rule_is_asked_for():
    before, after = sampled(0.5, 32, her_weight="one")
    assert (after.weight[:, :16] == 1.0).all()
    assert torch.equal(after.weight[:, 16:], before.weight[:, 16:])
    assert (before.weight[:, :16] < 1.0).any()


def test_over_the_offsets_relabelled_rows_are_drawn_from_every_stratum_equally_often():
    offsets = torch.arange(32)
    relabelled, real = strata(32, offsets)[:, :25], strata(32, offsets)[:, 25:]
    assert relabelled.flatten().bincount().tolist() == [25] * 32
    assert real.flatten().bincount().tolist() == [7] * 32


def test_relabelled_rows_draw_the_same_mean_priority_as_the_others():
    slots = [sampled(0.5, 32, step=step, members=4)[0].index for step in range(150)]
    index = torch.stack(slots).double()
    first, second = index[..., :16].mean(dim=(1, 2)), index[..., 16:].mean(dim=(1, 2))
    difference = first - second
    assert abs(difference.mean()) < 3 * difference.std() / 150**0.5


def test_a_member_is_relabelled_in_a_stack_as_alone_whatever_its_neighbours_do():
    settings_of = [
        {"her_strategy": strategy, "her_ratio": 0.2 * (place + 1), "her_future_offset": place % 2}
        for place, strategy in enumerate(STRATEGIES)
    ]
    configs = [TrainerConfig().with_overrides({"batch_size": 33} | each) for each in settings_of]
    hyper, keys, step = Hyperparameters.stack(configs, torch.float32, CPU), keys_of(4), torch.tensor(5)
    together = ReplayBuffer(4, 16, layout_of(), torch.float32, CPU)
    for episode in range(4):
        together.insert(counting_collection(1, 5, first=5 * episode, members=4), hyper)
    batch = together.gather(together.sample(33, step, keys, hyper), None)
    stacked = relabel(batch, together, step, keys, hyper)
    for member, config in enumerate(configs):
        own, key = Hyperparameters.stack([config], torch.float32, CPU), keys[member : member + 1]
        replay = wrapped_ring(own)
        single = replay.gather(replay.sample(33, step, key, own), None)
        alone = relabel(single, replay, step, key, own)
        for field in fields(Batch):
            assert torch.equal(getattr(alone, field.name)[0], getattr(stacked, field.name)[member])


class HostReadRefused(TorchDispatchMode):
    """Fails on every operation whose result or shape the host would have to read from the device."""

    FORBIDDEN = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "unique")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert not any(name in func.__name__ for name in self.FORBIDDEN), f"{func} reads the device"
        return func(*args, **(kwargs or {}))


def test_a_guard_that_forbids_host_reads_sees_one():
    with pytest.raises(AssertionError, match="reads the device"), HostReadRefused():
        torch.ones(()).item()


def test_nothing_between_insertion_and_priorities_reads_the_device():
    hyper = hyperparameters(2, batch_size=16, her_ratio=0.5)
    layout = StateLayout(1, 2, 3, 1, (5, 3))
    table = FeatureTable(torch.randn(40, 3), torch.zeros(2, 3), torch.ones(2, 3))
    replay, keys, step = ReplayBuffer(2, 32, layout, torch.float32, CPU), keys_of(2), torch.tensor(1)
    collection, accept = counting_collection(2, 10, members=2), torch.ones(2, dtype=torch.bool)
    with HostReadRefused():
        for _ in range(2):
            replay.insert(collection, hyper)
            batch = replay.gather(replay.sample(16, step, keys, hyper), table)
            batch = relabel(batch, replay, step, keys, hyper)
            replay.write_priorities(batch.index, batch.reward, hyper.her_size, accept, hyper)
