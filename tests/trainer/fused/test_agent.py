"""The fused agent against the reference: states that both load, whole updates, skipped members, graphs."""

import pytest
import torch

from trainer.fused.precision import matmul_precision
from trainer.graph import GraphedCallable

FIGURES = ("critic_loss", "value_loss", "value_gap", "gradient_norm", "clipped_target_share")
GRADIENT = {"fp32": 1e-5, "tf32": 1e-2, "bf16": 3e-2}
LOSS = {"fp32": 1e-6, "tf32": 1e-3, "bf16": 1e-2}
USUAL = {"trunk_widths": (256, 256), "head_width": 128, "num_atoms": 51, "batch_size": 256, "state_dim": 56}


def relative(ours, theirs):
    ours, theirs = ours.cpu().double(), theirs.double()
    return float(((ours - theirs).norm(dim=-1) / theirs.norm(dim=-1).clamp(min=1e-30)).max())


def gradients(twins):
    """Pairs (ours, the reference's) of whole gradients, one row per network of a member."""
    networks, reference = twins.fused.networks, twins.reference
    pairs = [(networks.q, reference._q.block)]
    if networks.value is not None:
        pairs.append((networks.value, reference._value.block))
    return [(kind.export(kind.gradient[:, 0]), block.gradient) for kind, block in pairs]


def states_equal(one, other):
    return [name for name in one if not torch.equal(one[name], other[name])] == []


@pytest.mark.parametrize("use_iql", [True, False])
def test_both_agents_have_the_same_state_names_shapes_and_types(make_twins, use_iql):
    twins = make_twins(use_iql=use_iql)
    ours, theirs = twins.fused.state_dict(), twins.reference.state_dict()
    assert {name: tensor.shape for name, tensor in ours.items()} == {
        name: tensor.shape for name, tensor in theirs.items()
    }
    assert all(
        tensor.is_floating_point() == theirs[name].is_floating_point() for name, tensor in ours.items()
    )
    assert twins.fused.weights_state().keys() == twins.reference.weights_state().keys()


@pytest.mark.parametrize("use_iql", [True, False])
def test_a_checkpoint_of_the_reference_loads_and_comes_back_unchanged(make_twins, use_iql):
    twins = make_twins(use_iql=use_iql)
    for seed in range(3):
        twins.reference.update(twins.batch(seed))
    state = twins.reference.state_dict()
    single = {name: t.float() if t.is_floating_point() else t for name, t in state.items()}
    twins.fused.load_state_dict(single)
    back = twins.fused.state_dict()
    # the reference leaves the gaps of its layout 0, and so does ours
    assert states_equal(single, back)
    assert back["updates"] == 3
    twins.reference.load_state_dict(back)
    assert states_equal(back, {n: t.to(back[n].dtype) for n, t in twins.reference.state_dict().items()})


def test_the_switch_of_tf32_is_restored():
    switches = torch.backends.cuda.matmul
    before = switches.allow_tf32
    with matmul_precision("tf32"):
        assert switches.allow_tf32
        with matmul_precision("fp32"):
            assert not switches.allow_tf32
        assert switches.allow_tf32
    assert switches.allow_tf32 == before


@pytest.mark.gpu
@pytest.mark.parametrize("use_iql", [True, False])
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_one_update_of_the_usual_networks_equals_the_reference(make_twins, cuda, precision, use_iql):
    twins = make_twins(
        device=cuda, precision=precision, use_iql=use_iql, branches=(3, 3, 3, 3), max_norm=1e9, **USUAL
    )
    result = twins.reference.update(twins.batch(0))
    twins.buffers.td_error.fill_(float("nan"))
    twins.fused.update(twins.buffers)
    for ours, theirs in gradients(twins):
        assert relative(ours, theirs) < GRADIENT[precision]
    assert relative(twins.buffers.td_error, result.td_error) < max(LOSS[precision], 2e-6)
    report = twins.fused.verdict.report.cpu().double()
    for row, name in enumerate(FIGURES[:2] if use_iql else FIGURES[:1]):
        torch.testing.assert_close(report[row], getattr(result, name), rtol=LOSS[precision], atol=1e-7)
    assert twins.buffers.accept.tolist() == [1, 1]


@pytest.mark.gpu
@pytest.mark.parametrize("use_iql", [True, False])
@pytest.mark.parametrize(
    ("state_dim", "batch"), [(1, 31), (7, 1), (33, 257), (63, 33), (127, 31), (7, 257), (64, 8)]
)
def test_odd_states_and_batches_equal_the_reference(make_twins, cuda, state_dim, batch, use_iql):
    twins = make_twins(
        device=cuda,
        state_dim=state_dim,
        batch_size=batch,
        use_iql=use_iql,
        trunk_widths=(33, 20),
        head_width=17,
        num_atoms=51,
        max_norm=1e9,
    )
    result = twins.reference.update(twins.batch(1))
    twins.fused.update(twins.buffers)
    for ours, theirs in gradients(twins):
        assert relative(ours, theirs) < 1e-5
    torch.testing.assert_close(twins.buffers.td_error.cpu().double(), result.td_error, rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("batch", [1, 31, 257])
@pytest.mark.parametrize("state_dim", [1, 63])
def test_odd_shapes_work_in_bf16(make_twins, cuda, state_dim, batch):
    twins = make_twins(device=cuda, state_dim=state_dim, batch_size=batch, precision="bf16")
    result = twins.reference.update(twins.batch(1))
    twins.fused.update(twins.buffers)
    torch.testing.assert_close(twins.buffers.td_error.cpu().double(), result.td_error, rtol=3e-2, atol=3e-2)
    assert twins.buffers.accept.tolist() == [1, 1]


@pytest.mark.gpu
@pytest.mark.parametrize("use_iql", [True, False])
def test_ten_updates_follow_the_reference(make_twins, cuda, use_iql):
    twins = make_twins(device=cuda, use_iql=use_iql, max_norm=0.3, weight_decay=0.1, polyak_tau=0.1)
    for seed in range(10):
        twins.reference.update(twins.batch(seed))
        twins.fused.update(twins.buffers)
    ours, theirs = twins.fused.state_dict(), twins.reference.state_dict()
    assert relative(ours["q"], theirs["q"]) < 1e-4
    assert relative(ours["target"], theirs["target"]) < 1e-4
    assert torch.equal(ours["q.step"].cpu(), theirs["q.step"])
    assert ours["updates"] == 10


@pytest.mark.gpu
@pytest.mark.parametrize("use_iql", [True, False])
def test_padding_stays_exactly_zero(make_twins, cuda, use_iql):
    twins = make_twins(device=cuda, use_iql=use_iql, precision="bf16", weight_decay=0.1)
    for seed in range(5):
        twins.batch(seed)
        twins.fused.update(twins.buffers)
    for kind in twins.fused._kinds().values():
        for flat in (kind.value[: kind.online], kind.first, kind.second):
            again = torch.full_like(flat, float("nan"))
            kind.load_moment(again, kind.export(flat))
            assert torch.equal(again, flat)
        assert torch.equal(kind.operand, kind.value.to(torch.bfloat16))


@pytest.mark.gpu
@pytest.mark.parametrize("use_iql", [True, False])
def test_a_member_with_a_bad_reward_is_skipped_and_counted_and_the_others_go_on(make_twins, cuda, use_iql):
    twins, clean = (make_twins(members=3, device=cuda, use_iql=use_iql) for _ in range(2))
    for agent in (twins, clean):
        agent.batch(0)
        agent.fused.update(agent.buffers)
        agent.batch(1)
    before = twins.fused.state_dict()
    twins.buffers.reward[1, 2] = float("nan")
    for agent in (twins, clean):
        agent.fused.update(agent.buffers)
    ours, others = twins.fused.state_dict(), clean.fused.state_dict()
    assert twins.buffers.accept.tolist() == [1, 0, 1]
    assert twins.fused.guard.skipped.tolist() == [0, 1, 0]
    assert twins.fused.guard.first_step.tolist() == [-1, 1, -1]
    assert twins.fused.guard.first_quantity.tolist() == [-1, 0, -1]
    assert ours["q.step"].tolist() == [[2, 1, 2]]
    assert torch.equal(ours["q"][1], before["q"][1])
    assert torch.equal(ours["target"][1], before["target"][1])
    for m in (0, 2):
        assert torch.equal(ours["q"][m], others["q"][m])
        assert not torch.equal(ours["q"][m], before["q"][m])
    assert twins.fused.means.count.tolist() == [2.0, 1.0, 2.0]


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_replays_equal_eager_steps_and_a_second_run_bit_for_bit(make_twins, cuda, precision):
    shape = USUAL | {"batch_size": 64}
    runs = [make_twins(device=cuda, precision=precision, branches=(3, 3, 3, 3), **shape) for _ in range(3)]
    for twins in runs:
        twins.batch(0)
    start = runs[2].fused.state_dict()
    graph = GraphedCallable(
        lambda: runs[2].fused.update(runs[2].buffers),
        lambda: runs[2].fused.load_state_dict(start),
        enabled=True,
    )
    for _ in range(4):
        runs[0].fused.update(runs[0].buffers)
        runs[1].fused.update(runs[1].buffers)
        graph.replay()
    first, second, replayed = (twins.fused.state_dict() for twins in runs)
    assert states_equal(first, second)
    assert states_equal(first, replayed)


@pytest.mark.gpu
def test_twenty_replays_follow_the_reference_and_count_their_steps(make_twins, cuda):
    """A step number frozen by the capture would leave the bias corrections at those of the first step."""
    twins = make_twins(device=cuda)
    batch, start = twins.batch(0), twins.fused.state_dict()
    graph = GraphedCallable(
        lambda: twins.fused.update(twins.buffers), lambda: twins.fused.load_state_dict(start)
    )
    for _ in range(20):
        graph.replay()
        twins.reference.update(batch)
    ours, theirs = twins.fused.state_dict(), twins.reference.state_dict()
    assert ours["q.step"].tolist() == [[20, 20]]
    assert ours["updates"] == 20
    assert relative(ours["q"] - start["q"], theirs["q"] - start["q"].cpu().double()) < 5e-2


@pytest.mark.gpu
def test_a_replay_sees_new_hyperparameters(make_twins, cuda):
    twins = make_twins(device=cuda)
    twins.batch(0)
    start = twins.fused.state_dict()
    graph = GraphedCallable(
        lambda: twins.fused.update(twins.buffers),
        lambda: twins.fused.load_state_dict(start),
        enabled=True,
    )
    twins.hyper.learning_rate.zero_()
    for _ in range(10):
        graph.replay()
    assert torch.equal(twins.fused.weights_state()["q"], start["q"])
    twins.hyper.learning_rate.fill_(1e-3)
    graph.replay()
    assert not torch.equal(twins.fused.weights_state()["q"], start["q"])
    low = twins.fused.verdict.report[1].clone()
    twins.hyper.expectile.fill_(0.95)
    graph.replay()
    assert not torch.equal(twins.fused.verdict.report[1], low)


@pytest.mark.gpu
@pytest.mark.parametrize("use_iql", [True, False])
def test_actions_equal_the_references_from_the_same_states(make_twins, cuda, use_iql):
    twins = make_twins(device=cuda, use_iql=use_iql)
    state = torch.randn((2, 500, 9), generator=torch.Generator().manual_seed(0))
    step = torch.tensor(11)
    sampled = twins.fused.act(state.to(cuda), step.to(cuda)).cpu()
    greedy = twins.fused.greedy(state.to(cuda)).cpu()
    assert (sampled == twins.reference.act(state.double(), step)).float().mean() > 0.999
    assert (greedy == twins.reference.greedy(state.double())).float().mean() > 0.999
    assert sampled.unique().tolist() == [0, 1, 2, 3, 4]
