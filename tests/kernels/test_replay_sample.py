"""The fused sample against sample, gather and relabel of the very same rings on the CPU."""

from dataclasses import fields, replace

import pytest
import torch

from trainer.fused.step_buffers import StepBuffers
from trainer.hindsight import relabel
from trainer.kernels.priority_sums import PrioritySums, priority_sums
from trainer.kernels.replay_sample import replay_sample
from trainer.kernels.sample_indices import DrawInputs
from trainer.layout import StateLayout
from trainer.reference.donor_select import donor_select
from trainer.reference.philox import Purpose, draw

pytestmark = pytest.mark.gpu

CPU = torch.device("cpu")
WEIGHT_TOLERANCE = 1e-6

LAYOUTS = {  # by state_dim: narrow, dense, unaligned, the market's, wide goals
    1: StateLayout(1, 1, 0, 0, (2,)),
    3: StateLayout(1, 2, 1, 1, (3,)),
    7: StateLayout(3, 7, 0, 3, (5, 3)),
    13: StateLayout(4, 8, 5, 4, (5, 3)),
    31: StateLayout(5, 31, 0, 20, (3, 3, 3, 3)),
    33: StateLayout(2, 5, 28, 2, (3, 3, 3)),
    56: StateLayout(1, 8, 48, 1, (5, 3, 3)),
    63: StateLayout(7, 15, 48, 7, (3, 3, 3, 3)),
    64: StateLayout(6, 16, 48, 8, (2, 2, 2, 2, 2)),
    127: StateLayout(63, 63, 64, 0, (5,)),
}


def every_rule(batch_size):
    """One member for each strategy, both future offsets, both weight rules, ratios from 0 to 1."""
    rules = [
        {"her_strategy": "final", "her_ratio": 0.5},
        {"her_strategy": "future", "her_ratio": 1.0, "her_weight": "one"},
        {"her_strategy": "future", "her_ratio": 0.8, "her_future_offset": 0},
        {"her_strategy": "episode", "her_ratio": 0.6, "her_weight": "one", "per_beta": 0.0},
        {"her_strategy": "random", "her_ratio": 0.7, "per_beta": 1.0},
        {"her_strategy": "future", "her_ratio": 0.0, "her_weight": "one"},
    ]
    return [{"batch_size": batch_size} | rule for rule in rules]


def guarded_buffers(guards, members, batch_size, layout, dtype, device):
    plain = StepBuffers.allocate(members, batch_size, layout, dtype, device)
    return StepBuffers(**{each.name: guards.like(getattr(plain, each.name)) for each in fields(plain)})


def sample_on(device, case, batch_size, step, guards, dtype=torch.float32, second_state=True):
    case = case.on(device)
    replay = case.replay
    buffers = guarded_buffers(guards, replay.members, batch_size, replay.layout, dtype, device)
    sums = PrioritySums.allocate(replay.members, replay.capacity, device)
    priority_sums(replay.priority, sums, buffers.largest_weight)
    at = torch.tensor(step, device=device)
    inputs = DrawInputs(replay.priority, sums, replay.written, case.keys, at)
    layout, hyper = replay.layout, case.hyper
    replay_sample(inputs, replay.rings, layout, case.table, hyper, buffers, second_state=second_state)
    assert guards.intact()
    return StepBuffers(**{each.name: getattr(buffers, each.name).cpu() for each in fields(buffers)})


def sample_by_reference(case, batch_size, step):
    at = torch.tensor(step)
    sample = case.replay.sample(batch_size, at, case.keys, case.hyper)
    batch = case.replay.gather(sample, case.table)
    return relabel(batch, case.replay, at, case.keys, case.hyper)


def donors_by_reference(case, index, step):
    row = torch.arange(index.shape[1])
    donor = donor_select(
        rows=case.replay.ring_rows(index),
        written=case.replay.written,
        capacity=case.replay.capacity,
        word=draw(case.keys, Purpose.DONOR, torch.tensor(step), row)[..., 0],
        strategy=case.hyper.her_strategy,
        future_offset=case.hyper.her_future_offset,
    )
    return torch.where(row < case.hyper.her_size[:, None], donor, -1)


def assert_equal_rows(buffers, case, batch_size, step):
    batch = sample_by_reference(case, batch_size, step)
    states = case.replay.layout.state_dim
    assert torch.equal(buffers.index, batch.index.int())
    assert torch.equal(buffers.donor, donors_by_reference(case, batch.index, step).int())
    assert torch.equal(buffers.reward, batch.reward)
    assert torch.equal(buffers.action, batch.action.to(torch.uint8))
    assert torch.equal(buffers.terminated, batch.terminated)
    dtype = buffers.state.dtype
    for plane, state in zip(buffers.state, (batch.state, batch.state, batch.next_state), strict=True):
        assert torch.equal(plane[..., :states], state.to(dtype))
        assert (plane[..., states] == 1.0).all()
        assert (plane[..., states + 1 :] == 0.0).all()
    torch.testing.assert_close(buffers.importance_weight(), batch.weight, rtol=WEIGHT_TOLERANCE, atol=0.0)
    relabelled = torch.arange(batch_size) < case.hyper.her_size[:, None]
    weighs_one = relabelled & case.hyper.her_weight_one[:, None]
    assert torch.equal(buffers.weight == -1.0, weighs_one)


@pytest.mark.parametrize("batch_size", [1, 31, 33, 257, 1000])
@pytest.mark.parametrize("state_dim", sorted(LAYOUTS))
def test_rows_equal_those_of_the_reference_for_every_rule_in_one_stack(
    state_dim, batch_size, cuda, guards, make_case
):
    """Capacity 50 cuts an episode of the wrapped ring: orphans are among the rows."""
    case = make_case(LAYOUTS[state_dim], every_rule(batch_size), capacity=50, collections=3)
    for step in (0, 77):
        assert_equal_rows(sample_on(cuda, case, batch_size, step, guards), case, batch_size, step)


@pytest.mark.parametrize("capacity", [24, 25, 49, 72, 100, 4096])
@pytest.mark.parametrize("collections", [1, 2, 3])
def test_rows_equal_those_of_the_reference_however_full_and_wrapped_the_ring_is(
    capacity, collections, cuda, guards, make_case
):
    case = make_case(LAYOUTS[56], every_rule(97), capacity=capacity, collections=collections)
    assert_equal_rows(sample_on(cuda, case, 97, 5, guards), case, 97, 5)


@pytest.mark.parametrize("state_dim", [33, 56])
def test_bfloat16_states_are_the_float32_states_rounded_to_the_nearest_even(
    state_dim, cuda, guards, make_case
):
    case = make_case(LAYOUTS[state_dim], every_rule(129), capacity=60, collections=2)
    case.replay.rings.prefix[:, :, -1] = 1.00390625  # halfway between two bfloat16, the even one is 1
    case.replay.rings.next_prefix[:, :, -1] = 1.01171875  # the even one is above
    buffers = sample_on(cuda, case, 129, 3, guards, torch.bfloat16)
    assert_equal_rows(buffers, case, 129, 3)
    column = case.replay.layout.prefix_dim - 1
    assert (buffers.state[:2, ..., column] == 1.0).all()
    assert (buffers.state[2, ..., column] == 1.015625).all()


def test_standardised_features_are_clipped_to_the_tables_limit(cuda, guards, make_case):
    case = make_case(LAYOUTS[56], every_rule(64), capacity=60, collections=2)
    case.table.features.mul_(50.0)
    buffers = sample_on(cuda, case, 64, 3, guards)
    assert_equal_rows(buffers, case, 64, 3)
    market = buffers.state[0, ..., 8:56]
    assert (market.min(), market.max()) == (-10.0, 10.0)


def test_a_table_that_does_not_start_at_16_bytes_gives_the_same_rows(cuda, guards, make_case):
    case = make_case(LAYOUTS[56], every_rule(64), capacity=60, collections=2)
    whole = torch.zeros(41 * 48 + 1, device=cuda)
    features = whole[1:].view(41, 48).copy_(case.table.features)
    shifted = case.on(cuda)
    shifted = replace(shifted, table=replace(shifted.table, features=features))
    assert features.data_ptr() % 16 == 4
    replay = shifted.replay
    buffers = guarded_buffers(guards, replay.members, 64, replay.layout, torch.float32, cuda)
    sums = PrioritySums.allocate(replay.members, replay.capacity, cuda)
    priority_sums(replay.priority, sums, buffers.largest_weight)
    inputs = DrawInputs(replay.priority, sums, replay.written, shifted.keys, torch.tensor(3, device=cuda))
    replay_sample(inputs, replay.rings, replay.layout, shifted.table, shifted.hyper, buffers)
    aligned = sample_on(cuda, case, 64, 3, guards)
    assert torch.equal(buffers.state.cpu(), aligned.state)


def test_a_relabelled_row_reaches_its_goal_where_the_donor_is_the_row_itself(cuda, guards, make_case):
    rule = {"her_strategy": "final", "her_ratio": 1.0, "batch_size": 500}
    case = make_case(LAYOUTS[7], [rule], capacity=48, collections=2)
    buffers = sample_on(cuda, case, 500, 3, guards)
    own = buffers.donor == buffers.index
    assert own.any()
    assert (buffers.reward[own] == 1.0).all()
    assert sorted(buffers.reward.unique().tolist()) == [pytest.approx(-0.01), 1.0]


def test_a_distance_equal_to_the_threshold_does_not_reach_the_goal(cuda, guards, make_case):
    rule = {"her_strategy": "random", "her_ratio": 1.0, "batch_size": 300}
    case = make_case(LAYOUTS[1], [rule, rule], capacity=48, collections=2)
    hyper = replace(case.hyper, her_threshold=torch.tensor([1.0, 1.0000001]))
    case = replace(case, hyper=hyper)
    buffers = sample_on(cuda, case, 300, 3, guards)
    assert_equal_rows(buffers, case, 300, 3)
    assert buffers.reward[0].min() < 0.0
    assert (buffers.reward[1] == 1.0).all()


def test_large_batches_of_many_members_equal_the_reference(cuda, guards, make_case):
    rules = [every_rule(4099)[m % 6] for m in range(24)]
    case = make_case(LAYOUTS[56], rules, capacity=3000, collections=2, lanes=50, length=40)
    assert_equal_rows(sample_on(cuda, case, 4099, 11, guards), case, 4099, 11)


def test_two_samples_of_one_step_agree_bit_for_bit_and_those_of_two_steps_differ(cuda, guards, make_case):
    case = make_case(LAYOUTS[56], every_rule(257), capacity=60, collections=2)
    first, again, later = (sample_on(cuda, case, 257, step, guards) for step in (4, 4, 5))
    for name in ("state", "action", "reward", "weight", "largest_weight", "index", "donor"):
        assert torch.equal(getattr(first, name), getattr(again, name))
    assert not torch.equal(first.index, later.index)
    assert not torch.equal(first.donor, later.donor)


def test_a_member_gets_the_same_rows_alone_as_in_a_stack(cuda, guards, make_case):
    rules = every_rule(257) * 10
    case = make_case(LAYOUTS[56], rules, capacity=60, collections=2)
    together = sample_on(cuda, case, 257, 4, guards)
    state = {
        name: value[3:4] if value.dim() > 0 else value for name, value in case.replay.state_dict().items()
    }
    single = make_case(LAYOUTS[56], rules[3:4], capacity=60, collections=2)
    single.replay.load_state_dict(state)
    table = replace(
        case.table, center=case.table.center[3:4].clone(), inverse_scale=case.table.inverse_scale[3:4].clone()
    )
    alone = sample_on(cuda, replace(single, table=table, keys=case.keys[3:4].clone()), 257, 4, guards)
    assert torch.equal(alone.state[:, 0], together.state[:, 3])
    for name in ("action", "reward", "weight", "largest_weight", "index", "donor"):
        assert torch.equal(getattr(alone, name)[0], getattr(together, name)[3])


def test_a_step_without_a_second_state_gets_the_same_rows_and_leaves_it_unwritten(cuda, guards, make_case):
    case = make_case(LAYOUTS[56], every_rule(257), capacity=60, collections=2)
    whole, single = (sample_on(cuda, case, 257, 4, guards, second_state=each) for each in (True, False))
    assert single.state[1].isnan().all()
    assert torch.equal(single.state[::2], whole.state[::2])
    for name in ("action", "reward", "terminated", "weight", "largest_weight", "index", "donor"):
        assert torch.equal(getattr(single, name), getattr(whole, name))


@pytest.mark.parametrize("batch_size", [1, 8, 9, 63])
def test_a_stack_may_relabel_every_row_or_none(batch_size, cuda, guards, make_case):
    rules = [{"her_strategy": "future", "her_ratio": ratio} for ratio in (0.0, 1.0)]
    case = make_case(LAYOUTS[56], [{"batch_size": batch_size} | rule for rule in rules], 60, 2)
    buffers = sample_on(cuda, case, batch_size, 3, guards)
    assert_equal_rows(buffers, case, batch_size, 3)
    assert (buffers.donor[0] == -1).all()
    assert (buffers.donor[1] >= 0).all()
