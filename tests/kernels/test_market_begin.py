"""The first state of every lane on the GPU against the reference environment on the CPU."""

import pytest
import torch

from trainer.fused.market_lanes import LaneInputs, MarketLanes
from trainer.kernels.market_begin import market_begin
from trainer.layout import assemble
from trainer.replay import ReplayBuffer

pytestmark = pytest.mark.gpu

CAPACITY = 100


def begin(case, device, dtype, guards, steps, written):
    """Starts lanes whose tensors lie between guard words; returns lanes and replay."""
    there = case.on(device)
    layout, config = case.layout, case.config
    lanes = MarketLanes.allocate(config, layout, case.tables.members, dtype, device)
    lanes = MarketLanes(**{name: guards.like(value) for name, value in vars(lanes).items()})
    replay = ReplayBuffer(case.tables.members, CAPACITY, layout, torch.float32, device)
    replay.rings = replay.rings._replace(prefix=guards.like(replay.rings.prefix))
    replay.written.fill_(written)
    counter = torch.tensor(steps, device=device)
    length = config.environment.episode_length
    inputs = LaneInputs.build(there.tables, layout, there.hyper, there.keys, counter, length)
    market_begin(inputs, lanes, replay)
    return lanes, replay


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("offset", [None, 0])
@pytest.mark.parametrize(("members", "table_dim"), [(1, 1), (3, 7), (2, 48), (5, 33)])
def test_lanes_begin_where_those_of_the_reference_do(
    make_market_case, members, table_dim, offset, dtype, cuda, guards
):
    case = make_market_case(members, table_dim, achieved_offset=offset)
    lanes, replay = begin(case, cuda, dtype, guards, 12, 73)
    environment = case.environment()
    environment.steps.fill_(12)
    environment.begin_lanes()
    seen = environment.observation()
    assert torch.equal(lanes.row.cpu(), seen.row.int())
    assert torch.equal(lanes.goal.cpu(), environment._goal)
    assert not lanes.position.any()
    assert not lanes.episode_start.any()
    torch.testing.assert_close(lanes.ledger.cpu(), environment._lane, rtol=1e-6, atol=1e-7)
    slots = (73 + 12 * torch.arange(5)) % CAPACITY
    torch.testing.assert_close(replay.rings.prefix.cpu()[:, slots], seen.prefix, rtol=1e-6, atol=1e-7)
    states = assemble(seen.prefix, case.tables.table, seen.row)
    width, rest = states.shape[-1], lanes.state.shape[-1] - states.shape[-1]
    tolerance = 1e-6 if dtype == torch.float32 else 1e-2
    torch.testing.assert_close(lanes.state.cpu().float()[..., :width], states, rtol=tolerance, atol=tolerance)
    assert lanes.state[..., width:].tolist() == [[[1.0] + [0.0] * (rest - 1)] * 5] * members
    assert guards.intact()


def test_slots_of_other_transitions_are_not_touched(make_market_case, cuda, guards):
    case = make_market_case(2)
    _, replay = begin(case, cuda, torch.float32, guards, 0, 0)
    written = ~torch.isnan(replay.rings.prefix).all(-1)
    expected = torch.zeros(CAPACITY, dtype=torch.bool)
    expected[12 * torch.arange(5)] = True
    assert torch.equal(written.cpu(), expected.expand(2, -1))


def test_the_next_collection_begins_elsewhere(make_market_case, cuda, guards):
    case = make_market_case(3)
    rows = [begin(case, cuda, torch.float32, guards, steps, 0)[0].row.cpu() for steps in (0, 12, 12)]
    assert not torch.equal(rows[0], rows[1])
    assert torch.equal(rows[1], rows[2])
