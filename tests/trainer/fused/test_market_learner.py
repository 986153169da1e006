"""The whole fused market learner against the reference, and the promises of its captured graphs."""

import pytest
import torch
from learner_states import differing, flat

from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.errors import NonFiniteError
from trainer.folds import split
from trainer.hyperparameters import Hyperparameters
from trainer.market_learner import ReferenceMarketLearner
from trainer.market_tables import MarketTables
from trainer.members import keys_of, members_of

pytestmark = pytest.mark.gpu

SETTINGS = {
    "data.path": "synthetic:known_answer:3000:2",
    "folds": 3,
    "seeds": 2,
    "epochs": 4,
    "updates": 50,
    "episodes": 16,
    "episode_length": 64,
    "capacity": 2**12,
    "her_ratio": 0.5,
    "fee_bp": 10.0,
    "precision": "fp32",
}


def settings(**overrides):
    return TrainerConfig.build({}).with_overrides({**SETTINGS, **overrides})


def learner(config, backend, device="cuda"):
    from trainer.fused.market_learner import FusedMarketLearner

    device = torch.device(device)
    market = load_market(config)
    members = members_of(config, config.walk_forward.folds)
    cut = split(len(market.bars), config.walk_forward)
    folds = [cut.folds[member.fold] for member in members]
    tables = MarketTables.build(market, folds, config, torch.float32, device)
    hyper = Hyperparameters.stack([config] * len(members), torch.float32, device)
    keys = keys_of(members, device)
    if backend == "fused":
        return FusedMarketLearner(config, tables, hyper, keys, device), hyper
    return ReferenceMarketLearner(config, tables, hyper, keys, torch.float32, device), hyper


@pytest.mark.parametrize("use_iql", [True, False])
def test_the_first_collection_takes_the_same_actions_and_stores_the_same_transitions(use_iql):
    config = settings(use_iql=use_iql)
    fused, _ = learner(config, "fused")
    reference, _ = learner(config, "reference", "cpu")
    fused.collect()
    reference.collect()
    ours, theirs = (dict(flat(each.state_dict()["replay"])) for each in (fused, reference))
    same = ours["action"] == theirs["action"]
    assert same.float().mean() >= 0.9999
    # A lane whose actions agree up to a step has the same numbers up to it.
    agreeing = same.all(-1).view(6, 16, 64).long().cumprod(-1).bool().view(6, -1)
    for name in ("row", "terminated", "truncated", "episode_start", "episode_stop"):
        assert torch.equal(ours[name][agreeing], theirs[name][agreeing]), name
    for name in ("prefix", "next_prefix", "reward"):
        torch.testing.assert_close(ours[name][agreeing], theirs[name][agreeing], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("use_iql", [True, False])
def test_fifty_steps_on_the_same_priorities_give_the_same_losses(use_iql):
    config = settings(use_iql=use_iql)
    fused, _ = learner(config, "fused")
    reference, _ = learner(config, "reference")
    reference.collect()
    fused.load_state_dict(reference.state_dict())
    for _ in range(50):
        # A priority that differs in its last bit may draw another row.
        fused._steps.replay.priority.copy_(reference._learner.replay.priority)
        fused.learn(1)
        reference.learn(1)
        ours, theirs = fused.means.read(), reference.means.read()
        for name in ("critic_loss", "value_loss"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-3, abs=1e-6), name


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize("use_iql", [True, False])
def test_the_captured_graph_equals_launches_one_by_one(precision, use_iql):
    states = []
    for cuda_graph in (True, False):
        one, _ = learner(settings(precision=precision, use_iql=use_iql, cuda_graph=cuda_graph), "fused")
        for _ in range(2):
            one.collect()
            one.learn(19)
        states.append(one.state_dict())
    assert differing(*states) == []


def test_the_number_of_steps_per_replay_changes_no_bit():
    states = []
    for steps_per_replay in (1, 5, 8, 64):
        one, _ = learner(settings(precision="bf16", steps_per_replay=steps_per_replay), "fused")
        one.collect()
        one.learn(19)
        states.append(one.state_dict())
    assert [differing(states[0], other) for other in states[1:]] == [[], [], []]


def test_two_runs_are_equal_bit_for_bit():
    states = []
    for _ in range(2):
        one, _ = learner(settings(precision="bf16"), "fused")
        one.collect()
        one.learn(40)
        states.append(one.state_dict())
    assert differing(*states) == []


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_restored_state_continues_bit_for_bit(precision):
    config = settings(precision=precision)
    whole, _ = learner(config, "fused")
    whole.collect()
    whole.learn(20)
    saved = {name: value for name, value in _copied(whole.state_dict()).items()}
    whole.collect()
    whole.learn(20)
    resumed, _ = learner(config, "fused")
    resumed.load_state_dict(saved)
    resumed.collect()
    resumed.learn(20)
    assert differing(whole.state_dict(), resumed.state_dict()) == []
    left, right = whole.evaluate(), resumed.evaluate()
    for ours, theirs in zip(left.members, right.members, strict=True):
        assert (ours.returns == theirs.returns).all()


def _copied(state):
    if isinstance(state, torch.Tensor):
        return state.clone()
    return {name: _copied(value) for name, value in state.items()}


def test_hyperparameters_are_read_by_every_replay():
    one, hyper = learner(settings(), "fused")
    one.collect()
    one.learn(16)
    before = one.weights_state()
    hyper.learning_rate.zero_()
    hyper.weight_decay.zero_()
    one.learn(10)
    after = one.weights_state()
    assert all(torch.equal(before[name], after[name]) for name in before)
    hyper.learning_rate.fill_(1e-3)
    one.learn(1)
    assert not torch.equal(one.weights_state()["q"], before["q"])


def test_two_replays_in_a_row_draw_different_rows():
    one, _ = learner(settings(), "fused")
    one.collect()
    one.learn(1)
    first = one._steps.buffers.index.clone()
    one.learn(1)
    assert not torch.equal(first, one._steps.buffers.index)


@pytest.mark.parametrize("use_iql", [True, False])
def test_nothing_is_allocated_inside_a_captured_step(use_iql):
    from trainer.graph import NO_ALLOCATIONS, allocations_of_a_capture

    one, _ = learner(settings(use_iql=use_iql, precision="bf16"), "fused")
    one.collect()
    one.learn(8)
    assert allocations_of_a_capture(one._steps.update) == NO_ALLOCATIONS
    assert allocations_of_a_capture(one._collector._advance) == NO_ALLOCATIONS
    assert allocations_of_a_capture(one._evaluation._advance) == NO_ALLOCATIONS


def test_a_poisoned_member_is_skipped_and_named_and_the_others_go_on():
    one, _ = learner(settings(max_skipped_steps=20), "fused")
    one.collect()
    one.learn(10)
    state = _copied(one.state_dict())
    state["agent"]["q"][3] = float("nan")
    one.load_state_dict(state)
    healthy = one.weights_state()["q"]
    one.learn(20)
    after = one.weights_state()["q"]
    assert one.guard.skipped.tolist() == [0, 0, 0, 20, 0, 0]
    changed = [not torch.equal(after[m], healthy[m]) for m in (0, 1, 2, 4, 5)]
    assert all(changed)
    with pytest.raises(NonFiniteError, match="TD error NaN at step 10, member 3"):
        one.learn(1)


def poisoned_weight(one):
    one._steps.agent.networks.q.weights("trunk.1", slice(3, 4))[0, 0, 0] = float("nan")


def poisoned_rewards(one):
    one._steps.replay.rings.reward[3] = float("nan")


def poisoned_scaler(one):
    one._steps.fused_replay.table.center[3, 1] = float("nan")


@pytest.mark.parametrize("cuda_graph", [True, False])
@pytest.mark.parametrize(
    ("poison", "source"),
    [
        (poisoned_weight, "q network layer 2"),
        (poisoned_rewards, "replay_sample reward"),
        (poisoned_scaler, "replay_sample state"),
    ],
)
def test_check_finite_names_the_first_kernel_and_the_member(poison, source, cuda_graph):
    one, _ = learner(settings(check_finite=True, cuda_graph=cuda_graph), "fused")
    one.collect()
    one.learn(3)
    poison(one)
    with pytest.raises(NonFiniteError) as caught:
        one.learn(5)
    assert str(caught.value) == f"TD error NaN at step 3, member 3; first non-finite output: {source}"


def test_check_finite_finds_a_feature_row_at_the_first_batch_that_holds_it():
    one, _ = learner(settings(check_finite=True, her_ratio=0.0), "fused")
    one.collect()
    steps = one._steps
    row = int(steps.replay.rings.row[2, 7])
    steps.fused_replay.table.features[row, 1] = float("nan")
    with pytest.raises(NonFiniteError, match="first non-finite output: replay_sample") as caught:
        one.learn(200)
    assert caught.value.source.startswith(("replay_sample state", "replay_sample next state"))
    member = caught.value.member
    drawn = steps.replay.rings.row[member, steps.buffers.index[member].long()]
    assert bool(((drawn == row) | (drawn == row - 1)).any())


def test_the_greedy_walk_agrees_with_the_reference_on_the_same_weights():
    config = settings()
    fused, _ = learner(config, "fused")
    reference, _ = learner(config, "reference")
    reference.collect()
    reference.learn(50)
    fused.load_state_dict(reference.state_dict())
    for ours, theirs in zip(fused.evaluate().members, reference.evaluate().members, strict=True):
        same = ours.positions == theirs.positions
        assert same.mean() >= 0.999
        if same.all():
            assert abs(ours.returns - theirs.returns).max() < 1e-12
            assert ours.trades == theirs.trades
