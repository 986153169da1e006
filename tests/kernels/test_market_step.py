"""Whole collections with given actions on the GPU against environment and replay of the reference."""

import pytest
import torch

from trainer.collector import collect
from trainer.fused.market_lanes import LaneInputs, MarketLanes
from trainer.kernels.collection_close import collection_close
from trainer.kernels.market_begin import market_begin
from trainer.kernels.market_step import market_step
from trainer.layout import assemble
from trainer.replay import ReplayBuffer
from trainer.transitions import Collection

pytestmark = pytest.mark.gpu

CPU = torch.device("cpu")
ROUNDED = (1, 6, 7)  # columns of a prefix behind a logarithm or a root; all others must be the same bits
EXACT = ("row", "action", "terminated", "truncated", "episode_start", "episode_stop")


def scripted(actions):
    steps = iter(actions)
    return lambda state: next(steps)


def by_reference(case, scripts, capacity):
    """Returns the replay after one collection for each script [L, M, E, K], and the environment."""
    environment, layout = case.environment(), case.layout
    shape = case.tables.members, environment.lanes, environment.lane_length
    collection = Collection.allocate(*shape, layout, torch.float32, CPU)
    replay = ReplayBuffer(case.tables.members, capacity, layout, torch.float32, CPU)
    replay.largest_error += torch.arange(len(replay.largest_error))
    for script in scripts:
        collect(environment, scripted(script), collection)
        replay.insert(collection, case.hyper)
    return replay, environment


class OnDevice:
    """Lanes and rings between guard words; lanes begin as NaN."""

    def __init__(self, case, capacity, device, guards, dtype=torch.float32):
        there, config, members = case.on(device), case.config, case.tables.members
        self.length = config.environment.episode_length
        lanes = MarketLanes.allocate(config, case.layout, members, dtype, device)
        self.lanes = MarketLanes(**{name: guards.like(value) for name, value in vars(lanes).items()})
        self.replay = ReplayBuffer(members, capacity, case.layout, torch.float32, device)
        self.replay.rings = type(self.replay.rings)(
            *(guards.like(ring).zero_() for ring in self.replay.rings)
        )
        self.replay.largest_error += torch.arange(members, device=device)
        self.steps = torch.zeros((), dtype=torch.int64, device=device)
        self.hyper = there.hyper
        self.inputs = LaneInputs.build(
            there.tables, case.layout, there.hyper, there.keys, self.steps, self.length
        )

    def collect(self, script):
        market_begin(self.inputs, self.lanes, self.replay)
        for action in script:
            self.lanes.action.copy_(action)
            market_step(self.inputs, self.lanes, self.replay)
        lanes = self.lanes.row.shape[1]
        collection_close(self.replay, self.hyper, lanes, self.length)
        self.replay.advance(lanes * self.length)
        self.steps += self.length


def assert_same_rings(replay, reference):
    for name in EXACT:
        actual, expected = getattr(replay.rings, name).cpu(), getattr(reference.rings, name)
        assert torch.equal(actual, expected), name
    for name in ("prefix", "next_prefix"):
        actual, expected = getattr(replay.rings, name).cpu(), getattr(reference.rings, name)
        exact = [column for column in range(expected.shape[-1]) if column not in ROUNDED and column > 0]
        assert torch.equal(actual[..., exact], expected[..., exact]), name
        torch.testing.assert_close(actual, expected, rtol=2e-6, atol=1e-6)
    torch.testing.assert_close(replay.rings.reward.cpu(), reference.rings.reward, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(replay.priority.cpu(), reference.priority, rtol=1e-6, atol=0.0)
    assert replay.written.item() == reference.written.item()


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("returns", ["percent", "difference"])
@pytest.mark.parametrize("at_close", [False, True])
@pytest.mark.parametrize("branches", [(5, 3, 3), (3, 3, 3, 3), (1,), (7, 5), (2, 4, 6, 2, 9)])
def test_rings_equal_those_of_the_reference(
    make_market_case, branches, at_close, returns, wild, cuda, guards
):
    case = make_market_case(
        3, 5, wild=wild, at_close=at_close, actions_per_branch=branches, **{"data.returns": returns}
    )
    scripts = [case.actions(12, 5, seed) for seed in range(4)]
    reference, environment = by_reference(case, scripts, 150)  # 240 transitions: the ring wraps
    device = OnDevice(case, 150, cuda, guards)
    for script in scripts:
        device.collect(script)
    assert_same_rings(device.replay, reference)
    if branches[0] > 1:
        assert bool(reference.rings.terminated.any()) == wild
    torch.testing.assert_close(device.lanes.ledger.cpu(), environment._lane, rtol=2e-6, atol=1e-6)
    assert guards.intact()


@pytest.mark.parametrize("offset", [None, 0])
@pytest.mark.parametrize(
    ("members", "lanes", "length", "table_dim"),
    [(1, 1, 2, 1), (2, 7, 33, 13), (5, 3, 31, 48), (1, 33, 3, 63)],
)
def test_odd_sizes_are_filled_to_their_edges_and_not_beyond(
    make_market_case, members, lanes, length, table_dim, offset, cuda, guards
):
    case = make_market_case(
        members, table_dim, wild=True, episodes=lanes, episode_length=length, achieved_offset=offset
    )
    capacity = lanes * length + 1
    scripts = [case.actions(length, lanes, seed) for seed in range(3)]
    reference, _ = by_reference(case, scripts, capacity)
    device = OnDevice(case, capacity, cuda, guards)
    for script in scripts:
        device.collect(script)
    assert_same_rings(device.replay, reference)
    assert guards.intact()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_networks_see_the_state_of_the_next_step(make_market_case, dtype, cuda, guards):
    case = make_market_case(3, 9, wild=True)
    script = case.actions(12, 5, 1)
    seen, steps = [], iter(script)

    def policy(state):
        seen.append(state.clone())
        return next(steps)

    environment = case.environment()
    collect(environment, policy, Collection.allocate(3, 5, 12, case.layout, torch.float32, CPU))
    last = environment.observation()
    seen.append(assemble(last.prefix, case.tables.table, last.row))
    device = OnDevice(case, 60, cuda, guards, dtype)
    market_begin(device.inputs, device.lanes, device.replay)
    tolerance = 2e-6 if dtype == torch.float32 else 1e-2
    for action, before in zip([*script, None], seen, strict=True):
        state = device.lanes.state.float().cpu().clone()
        torch.testing.assert_close(state[..., :17], before, rtol=tolerance, atol=tolerance)
        assert bool((state[..., 17] == 1).all())
        assert not state[..., 18:].any()
        if action is not None:
            device.lanes.action.copy_(action)
            market_step(device.inputs, device.lanes, device.replay)
    assert guards.intact()


def test_resting_lanes_and_their_rings_stay_as_they_are(make_market_case, cuda, guards):
    case = make_market_case(2, wild=True)
    device = OnDevice(case, 60, cuda, guards)
    device.collect(case.actions(12, 5, 0))
    before = [each.clone() for each in (*vars(device.lanes).values(), *device.replay.rings)]
    market_step(device.inputs, device.lanes, device.replay)
    after = (*vars(device.lanes).values(), *device.replay.rings)
    assert all(torch.equal(new, old) for new, old in zip(after, before, strict=True))


def test_scalars_written_over_in_place_count_from_the_next_step(make_market_case, cuda, guards):
    case = make_market_case(2)
    script = case.actions(12, 5, 0)
    device = OnDevice(case, 60, cuda, guards)
    device.collect(script)
    cheap = device.replay.rings.reward.clone()
    for scalar in (device.hyper.maker_cost, device.hyper.taker_cost):
        scalar.fill_(0.01)
    device.replay.written.zero_()
    device.steps.zero_()
    device.collect(script)
    case.hyper.maker_cost.fill_(0.01)
    case.hyper.taker_cost.fill_(0.01)
    reference, _ = by_reference(case, [script], 60)
    assert not torch.equal(device.replay.rings.reward, cheap)
    torch.testing.assert_close(device.replay.rings.reward.cpu(), reference.rings.reward, rtol=2e-6, atol=2e-6)


def test_two_collections_with_the_same_actions_agree_bit_for_bit(make_market_case, cuda, guards):
    case = make_market_case(3, wild=True)
    script = case.actions(12, 5, 0)
    devices = [OnDevice(case, 70, cuda, guards) for _ in range(2)]
    for device in devices:
        device.collect(script)
    for first, second in zip(*(device.replay.rings for device in devices), strict=True):
        assert torch.equal(first, second)
