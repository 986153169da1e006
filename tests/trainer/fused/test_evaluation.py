"""The captured greedy walk against the reference's with the same networks."""

import numpy as np
import pytest
import torch

from trainer.evaluation import evaluate
from trainer.fused.agent import FusedAgent
from trainer.fused.evaluation import FusedEvaluation
from trainer.graph import NO_ALLOCATIONS, allocations_of_a_capture

pytestmark = pytest.mark.gpu

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


def assert_same(actual, expected, tolerance=TOLERANCE):
    for member, result in zip(actual.members, expected.members, strict=True):
        for name, value in vars(result).items():
            np.testing.assert_allclose(getattr(member, name), value, rtol=tolerance, atol=tolerance)


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


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_replayed_graphs_walk_as_single_launches_do_bit_for_bit(make_market_case, cuda, precision):
    case = make_market_case(3, 7, wild=True, **SMALL)
    walks = [Evaluating(case, cuda, precision, graphed).evaluation for graphed in (True, False, True)]
    first, *others = [walk.evaluate() for walk in (*walks, walks[0])]
    for other in others:
        assert_same(other, first, 0.0)


def test_a_captured_bar_allocates_nothing(make_market_case, cuda):
    made = Evaluating(make_market_case(2, 7, **SMALL), cuda)
    made.evaluation.evaluate()
    assert allocations_of_a_capture(made.evaluation._advance) == NO_ALLOCATIONS


def test_a_long_window_is_read_back_whole(make_market_case, cuda):
    made = Evaluating(make_market_case(4, 7, **SMALL), cuda)
    result = made.evaluation.evaluate()
    sizes = [fold.test_stop - fold.test_start - 1 for fold in made.case.tables.folds]
    assert [member.close_returns.size for member in result.members] == sizes
    assert torch.equal(made.evaluation.lanes.bar.cpu(), torch.full((4,), max(sizes), dtype=torch.int32))
