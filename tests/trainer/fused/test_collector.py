"""Captured collections: the reference's transitions for the same actions, and actions of the right policy."""

import pytest
import torch

from trainer.collector import collect
from trainer.errors import ConfigError
from trainer.fused.agent import FusedAgent
from trainer.fused.collector import CollectionCounters, FusedCollector
from trainer.graph import NO_ALLOCATIONS, allocations_of_a_capture
from trainer.layout import assemble
from trainer.replay import ReplayBuffer
from trainer.transitions import Collection

pytestmark = pytest.mark.gpu

CPU = torch.device("cpu")
SMALL = {"trunk_widths": (24, 20), "head_width": 12, "num_atoms": 21, "batch_size": 8}
CAPACITY = 150
EXACT = ("row", "terminated", "truncated", "episode_start", "episode_stop")


class Collecting:
    """A collector with its agent and replay on the device."""

    def __init__(self, case, device, precision="fp32", graphed=True, capacity=CAPACITY):
        self.there, config, layout = case.on(device), case.config, case.layout
        self.case, members = case, case.tables.members
        self.agent = FusedAgent(config, layout, self.there.hyper, self.there.keys, device, precision)
        self.replay = ReplayBuffer(members, capacity, layout, torch.float32, device)
        zero = torch.zeros((), dtype=torch.int64, device=device)
        self.counters = CollectionCounters(zero.clone(), zero.clone())
        self.collector = FusedCollector(
            self.there.tables,
            config,
            self.there.hyper,
            self.there.keys,
            self.agent.networks,
            self.replay,
            self.counters,
            precision,
            graphed=graphed,
        )

    def latest(self, name):
        """The last collection's column [M, E, L, ...] of the rings, on the CPU."""
        lanes, length = self.collector.lanes.row.shape[1], self.case.config.environment.episode_length
        slots = (self.replay.written.item() - lanes * length + torch.arange(lanes * length)) % CAPACITY
        return getattr(self.replay.rings, name).cpu()[:, slots].unflatten(1, (lanes, length))


@pytest.fixture
def make_collecting(make_market_case, cuda):
    def build(precision="fp32", graphed=True, capacity=CAPACITY, members=3, table_dim=7, **changes):
        case = make_market_case(members, table_dim, **{"wild": True, **SMALL, **changes})
        return Collecting(case, cuda, precision, graphed, capacity)

    return build


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"use_iql": False},
        {"episode_length": 16, "precision": "bf16"},
        {"actions_per_branch": (3, 3, 3, 3), "data.returns": "difference", "at_close": True},
        {"actions_per_branch": (1,), "achieved_offset": 0, "episodes": 3, "table_dim": 48},
    ],
)
def test_transitions_are_those_of_the_reference_for_the_same_actions(make_collecting, changes):
    made = make_collecting(**changes)
    case, config = made.case, made.case.config.environment
    environment = case.environment()
    shape = case.tables.members, config.episodes, config.episode_length
    collection = Collection.allocate(*shape, case.layout, torch.float32, CPU)
    reference = ReplayBuffer(case.tables.members, CAPACITY, case.layout, torch.float32, CPU)
    for number in range(3):
        made.collector.collect()
        script = iter(made.latest("action").long().unbind(2))
        collect(environment, lambda state, script=script: next(script), collection)
        reference.insert(collection, case.hyper)
        expected = environment.moments()
        assert made.collector.moments() == pytest.approx(expected, rel=1e-5, abs=1e-9)
        assert made.counters.steps.item() == made.counters.acted.item() == (number + 1) * shape[2]
    for name, expected in reference.state_dict().items():
        actual = made.replay.state_dict()[name].cpu()
        if name in EXACT:
            assert torch.equal(actual, expected), name
        else:
            torch.testing.assert_close(actual, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("use_iql", [True, False])
def test_actions_are_drawn_from_the_policy_of_the_state_they_are_stored_with(make_collecting, use_iql):
    made = make_collecting(use_iql=use_iql)
    equal = []
    for number in range(4):
        made.collector.collect()
        prefix, row, action = (made.latest(name) for name in ("prefix", "row", "action"))
        for position in range(12):
            state = assemble(prefix[:, :, position], made.case.tables.table, row[:, :, position])
            step = torch.tensor(12 * number + position, device=made.counters.acted.device)
            expected = made.agent.act(state.to(step.device), step).cpu()
            equal.append(expected == action[:, :, position].long())
    assert torch.stack(equal).float().mean().item() > 0.999


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("length", [12, 16])
def test_replayed_graphs_collect_what_single_launches_collect_bit_for_bit(make_collecting, length, precision):
    made = [
        make_collecting(precision, graphed, episode_length=length, episodes=4)
        for graphed in (True, False, True)
    ]
    for each in made:
        each.collector.collect()
        each.collector.collect()
    for other in made[1:]:
        for first, second in zip(made[0].replay.rings, other.replay.rings, strict=True):
            assert torch.equal(first, second)


def test_making_a_collector_leaves_a_filled_replay_alone(make_collecting):
    made = make_collecting()
    made.collector.collect()
    before = made.replay.state_dict()
    FusedCollector(
        made.there.tables,
        made.case.config,
        made.there.hyper,
        made.there.keys,
        made.agent.networks,
        made.replay,
        made.counters,
        "fp32",
    )
    after = made.replay.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_a_temperature_written_over_in_place_reaches_the_captured_graph(make_collecting):
    made = make_collecting()
    made.collector.collect()
    before = made.latest("action")
    for counter in vars(made.counters).values():
        counter.zero_()
    made.there.hyper.inverse_temperature.fill_(300.0)
    made.collector.collect()
    assert not torch.equal(made.latest("action"), before)


def test_a_captured_step_allocates_nothing(make_collecting):
    made = make_collecting()
    assert allocations_of_a_capture(made.collector._advance) == NO_ALLOCATIONS


def test_lanes_that_would_overwrite_each_other_are_refused(make_collecting):
    with pytest.raises(ConfigError, match=r"replay.capacity: .*60 > 59"):
        make_collecting(capacity=59)
