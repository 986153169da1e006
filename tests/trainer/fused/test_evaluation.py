"""The captured greedy walk against the reference's with the same networks."""

import numpy as np
import pytest
import torch

from trainer.evaluation import evaluate
from trainer.fused import evaluation
from trainer.fused.agent import FusedAgent
from trainer.fused.evaluation import FusedEvaluation, even_replays
from trainer.graph import NO_ALLOCATIONS, allocations_of_a_capture

SMALL = {"trunk_widths": (24, 20), "head_width": 12, "num_atoms": 21, "batch_size": 8}
TOLERANCE = 1e-12


class Evaluating:
    """A walk and the agent whose networks it reads."""

    def __init__(self, case, device, precision="fp32", graphed=True):
        self.case = case.on(device)
        self.agent = FusedAgent(case.config, case.layout, self.case.hyper, self.case.keys, device, precision)
        self.evaluation = FusedEvaluation(
            self.case.tables,
            case.config,
            self.case.hyper,
            self.agent.networks,
            precision,
            graphed=graphed,
        )

    def reference(self):
        case = self.case
        return evaluate(case.tables, case.hyper, case.config, self.agent.greedy)


@pytest.mark.parametrize(
    ("bars", "expected"), [(1, (1, 1)), (64, (1, 64)), (65, (2, 33)), (3998, (63, 64)), (130, (3, 44))]
)
def test_replays_share_the_bars_evenly_and_few_are_walked_in_vain(bars, expected):
    replays, length = even_replays(bars, 64)
    assert (replays, length) == expected
    assert 0 <= replays * length - bars < replays


def assert_same(actual, expected, tolerance=TOLERANCE):
    for member, result in zip(actual.members, expected.members, strict=True):
        for name, value in vars(result).items():
            np.testing.assert_allclose(getattr(member, name), value, rtol=tolerance, atol=tolerance)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"wild": True, "use_iql": False},
        {"actions_per_branch": (3, 3, 3, 3), "data.returns": "difference", "at_close": True},
        {"actions_per_branch": (7,), "achieved_offset": 0, "table_dim": 48, "members": 1},
    ],
)
def test_the_walk_equals_that_of_the_reference(make_market_case, cuda, changes):
    members, table_dim = changes.get("members", 5), changes.get("table_dim", 7)
    others = {name: value for name, value in changes.items() if name not in ("members", "table_dim")}
    made = Evaluating(make_market_case(members, table_dim, **SMALL, **others), cuda)
    assert_same(made.evaluation.evaluate(), made.reference())


@pytest.mark.gpu
def test_a_second_walk_sees_the_weights_as_they_are_then(make_market_case, cuda):
    made = Evaluating(make_market_case(2, 7, **SMALL), cuda)
    first = made.evaluation.evaluate()
    weights = made.agent.weights_state()
    weights["q"].neg_()
    made.agent.load_weights_state(weights)
    second = made.evaluation.evaluate()
    assert any(
        not np.array_equal(left.positions, right.positions)
        for left, right in zip(first.members, second.members, strict=True)
    )
    assert_same(second, made.reference())


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_replayed_graphs_walk_as_single_launches_do_bit_for_bit(make_market_case, cuda, precision):
    case = make_market_case(3, 7, wild=True, **SMALL)
    walks = [Evaluating(case, cuda, precision, graphed).evaluation for graphed in (True, False, True)]
    first, *others = [walk.evaluate() for walk in (*walks, walks[0])]
    for other in others:
        assert_same(other, first, 0.0)


@pytest.mark.gpu
def test_a_capture_of_many_bars_allocates_nothing(make_market_case, cuda):
    made = Evaluating(make_market_case(2, 7, **SMALL), cuda)
    made.evaluation.evaluate()
    assert made.evaluation.bars_per_replay > 1
    assert allocations_of_a_capture(made.evaluation._advance_replay) == NO_ALLOCATIONS


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_number_of_bars_per_replay_changes_no_bit(make_market_case, cuda, precision, monkeypatch):
    case = make_market_case(5, 7, wild=True, **SMALL)
    walks = []
    for most, graphed in ((1, True), (7, True), (64, True), (13, False)):
        monkeypatch.setattr(evaluation, "MOST_BARS", most)
        made = Evaluating(case, cuda, precision, graphed).evaluation
        assert made.bars_per_replay <= most
        walks += [made.evaluate(), made.evaluate()]
    for other in walks[1:]:
        assert_same(other, walks[0], 0.0)


@pytest.mark.gpu
def test_layers_too_wide_for_one_launch_walk_the_same_way(make_market_case, cuda, monkeypatch):
    case = make_market_case(3, 7, **SMALL)
    expected = Evaluating(case, cuda).evaluation.evaluate()
    monkeypatch.setattr(evaluation, "fits", lambda *_: False)
    made = Evaluating(case, cuda)
    assert_same(made.evaluation.evaluate(), expected)
    assert allocations_of_a_capture(made.evaluation._advance_replay) == NO_ALLOCATIONS


@pytest.mark.gpu
def test_a_long_window_is_read_back_whole(make_market_case, cuda):
    made = Evaluating(make_market_case(4, 7, **SMALL), cuda)
    result = made.evaluation.evaluate()
    sizes = [fold.test_stop - fold.test_start - 1 for fold in made.case.tables.folds]
    assert [member.close_returns.size for member in result.members] == sizes
    assert torch.equal(made.evaluation.lanes.bar.cpu(), torch.full((4,), max(sizes), dtype=torch.int32))
