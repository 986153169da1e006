"""The walk over the test windows with given actions on the GPU against the reference's."""

import numpy as np
import pytest
import torch

from trainer.evaluation import Trace, cut_to_windows, evaluate
from trainer.kernels.evaluation_step import OPENING, EvaluationLanes, evaluation_step

pytestmark = pytest.mark.gpu

TOLERANCE = 1e-12


def walk(case, script, device, guards, dtype=torch.float32):
    """Returns lanes after the walk and the states [T, M, S] that its decisions saw."""
    there, config = case.on(device), case.config
    lanes = EvaluationLanes.allocate(there.tables, case.layout, dtype)
    made = {name: guards.like(getattr(lanes, name)) for name in ("ledger", "action", "state", "trace")}
    lanes = EvaluationLanes(**{**vars(lanes), **made})
    lanes.bar.fill_(OPENING)
    states = []

    def step():
        evaluation_step(
            there.tables,
            case.layout,
            there.hyper,
            lanes,
            config.goal.eval,
            config.environment.episode_length,
        )

    step()
    for action in script:
        states.append(lanes.state[:, 0, : case.layout.state_dim].float().cpu().clone())
        lanes.action.copy_(action)
        step()
    return lanes, torch.stack(states)


def by_reference(case, script):
    states, steps = [], iter(script)

    def policy(state):
        states.append(state[:, 0].clone())
        return next(steps)

    return evaluate(case.tables, case.hyper, case.config, policy).members, torch.stack(states)


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("returns", ["percent", "difference"])
@pytest.mark.parametrize("at_close", [False, True])
@pytest.mark.parametrize("branches", [(5, 3, 3), (3, 3, 3, 3), (1,), (7, 5)])
def test_returns_positions_and_costs_equal_those_of_the_reference(
    make_market_case, branches, at_close, returns, wild, cuda, guards
):
    case = make_market_case(
        5, 7, wild=wild, at_close=at_close, actions_per_branch=branches, **{"data.returns": returns}
    )
    lanes = EvaluationLanes.allocate(case.tables, case.layout, torch.float32)
    script = case.actions(lanes.bars, 1, 3)
    expected, states = by_reference(case, script)
    lanes, seen = walk(case, script, cuda, guards)
    closes = case.tables.exact_bars.moves[:, 3].numpy()
    actual = cut_to_windows(Trace(*lanes.trace.cpu().unbind(0)), case.tables, closes)
    for member, result in zip(actual, expected, strict=True):
        for name, value in vars(result).items():
            np.testing.assert_allclose(getattr(member, name), value, rtol=TOLERANCE, atol=TOLERANCE)
    torch.testing.assert_close(seen, states, rtol=1e-6, atol=1e-6)
    assert guards.intact()


@pytest.mark.parametrize("offset", [None, 0])
@pytest.mark.parametrize(("members", "table_dim", "length"), [(1, 1, 2), (9, 48, 7), (4, 33, 64)])
def test_states_of_odd_sizes_restart_with_every_episode(
    make_market_case, members, table_dim, length, offset, cuda, guards
):
    case = make_market_case(members, table_dim, episode_length=length, achieved_offset=offset)
    lanes = EvaluationLanes.allocate(case.tables, case.layout, torch.float32)
    script = case.actions(lanes.bars, 1, 4)
    _, states = by_reference(case, script)
    lanes, seen = walk(case, script, cuda, guards)
    torch.testing.assert_close(seen, states, rtol=1e-6, atol=1e-6)
    assert guards.intact()


def test_bfloat16_states_are_the_rounded_ones(make_market_case, cuda, guards):
    case = make_market_case(2, 5)
    lanes = EvaluationLanes.allocate(case.tables, case.layout, torch.float32)
    script = case.actions(lanes.bars, 1, 4)
    _, exact = walk(case, script, cuda, guards)
    _, rounded = walk(case, script, cuda, guards, torch.bfloat16)
    assert torch.equal(rounded, exact.bfloat16().float())


def test_a_finished_walk_rests_and_two_walks_agree_bit_for_bit(make_market_case, cuda, guards):
    case = make_market_case(3, 5, wild=True)
    lanes = EvaluationLanes.allocate(case.tables, case.layout, torch.float32)
    script = case.actions(lanes.bars, 1, 5)
    first, _ = walk(case, script, cuda, guards)
    longer, _ = walk(case, [*script, script[0], script[1]], cuda, guards)
    assert torch.equal(first.trace, longer.trace)
    assert torch.equal(first.ledger, longer.ledger)
