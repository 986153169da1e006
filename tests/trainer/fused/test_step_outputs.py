"""A refused step of the fused agent names the first of its outputs that is not finite."""

import math

import pytest
import torch

from trainer.post_mortem import Source, first_non_finite

MEMBERS = 3


def matrix(twins, kind, name, row):
    """A matrix of network ``row`` as products read it; its master is what the kernels of the loss read."""
    return twins.fused.networks.__dict__[kind].weights(name, slice(row, row + 1))[0]


POISONS = {
    "replay_sample state": lambda twins, m: twins.buffers.state[:2, m, 1].fill_(math.nan),
    "replay_sample next state": lambda twins, m: twins.buffers.state[2, m, 1, 3].fill_(math.inf),
    "replay_sample reward": lambda twins, m: twins.buffers.reward[m, 4].fill_(math.nan),
    "replay_sample importance weight": lambda twins, m: twins.buffers.weight[m, 0].fill_(math.inf),
    "q network layer 1": lambda twins, m: matrix(twins, "q", "trunk.0", m)[0, 0].fill_(math.nan),
    "q network layer 2": lambda twins, m: matrix(twins, "q", "trunk.1", m)[6, 1].fill_(math.nan),
    "q network heads' hidden layer": lambda twins, m: matrix(twins, "q", "head.hidden", m)[0].fill_(math.nan),
    "q network logits": lambda twins, m: matrix(twins, "q", "head.output", m)[0, 0].fill_(math.nan),
}
IQL_POISONS = {
    "V_high layer 1": lambda twins, m: matrix(twins, "value", "trunk.0", m)[0, 0].fill_(math.nan),
    "V_low layer 2": lambda twins, m: matrix(twins, "value", "trunk.1", MEMBERS + m)[0, 0].fill_(math.nan),
    "V_target layer 1": lambda twins, m: matrix(twins, "value", "trunk.0", 2 * MEMBERS + m).fill_(math.nan),
    "c51_iql_step TD error": lambda twins, m: twins.hyper.gamma[m].fill_(math.nan),
    "c51_iql_step value loss": lambda twins, m: twins.hyper.expectile[m].fill_(math.nan),
}
DOUBLE_POISONS = {
    "target network on s' layer 2": lambda twins, m: matrix(twins, "q", "trunk.1", MEMBERS + m).fill_(
        math.nan
    ),
    "c51_double_dqn_step TD error": lambda twins, m: twins.hyper.gamma[m].fill_(math.nan),
}


def refused_step(make_twins, device, poison, member, **shape):
    twins = make_twins(members=MEMBERS, device=device, **shape)
    twins.batch(0)
    twins.buffers.terminated.zero_()  # every row reads its next state
    poison(twins, member)
    twins.fused.update(twins.buffers)
    return twins


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", [*POISONS, *IQL_POISONS])
def test_the_step_of_implicit_q_learning_names_what_was_poisoned(make_twins, cuda, name, precision):
    poison = (POISONS | IQL_POISONS)[name]
    twins = refused_step(make_twins, cuda, poison, 1, precision=precision)
    assert twins.buffers.accept.tolist() == [1, 0, 1]
    assert first_non_finite(twins.fused.outputs(twins.buffers), [1]) == Source(name, 1)


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*POISONS, *DOUBLE_POISONS])
def test_the_step_of_double_dqn_names_what_was_poisoned(make_twins, cuda, name):
    if name.startswith("q network "):  # there the online network sees s' first
        name, poison = name.replace("q network", "q network on s'"), POISONS[name]
    else:
        poison = (POISONS | DOUBLE_POISONS)[name]
    twins = refused_step(make_twins, cuda, poison, 2, use_iql=False)
    assert twins.buffers.accept.tolist() == [1, 1, 0]
    assert first_non_finite(twins.fused.outputs(twins.buffers), [2]) == Source(name, 2)


@pytest.mark.gpu
@pytest.mark.parametrize("batch_size", [8, 4096])
@pytest.mark.parametrize("use_iql", [True, False])
def test_every_output_of_an_accepted_step_is_finite(make_twins, cuda, use_iql, batch_size):
    twins = refused_step(make_twins, cuda, lambda *_: None, 0, use_iql=use_iql, batch_size=batch_size)
    outputs = list(twins.fused.outputs(twins.buffers))
    assert all(len(output.value) == MEMBERS for output in outputs)
    assert first_non_finite(outputs, range(MEMBERS)) is None


@pytest.mark.gpu
def test_a_gradient_beyond_float32_is_named_by_its_matrix(make_twins, cuda):
    def poison(twins, member):
        twins.buffers.weight[member].fill_(-1.0)
        twins.fused.networks.q.gradient[member].fill_(0.0)
        state = twins.buffers.state[:2, member, :, 0]
        state.fill_(3e38)
        matrix(twins, "q", "trunk.0", member)[0].fill_(0.0)  # the forward pass does not see the column
        for row in (member, MEMBERS + member):
            matrix(twins, "value", "trunk.0", row)[0].fill_(0.0)

    twins = refused_step(make_twins, cuda, poison, 0)
    assert twins.buffers.accept.tolist() == [0, 1, 1]
    found = first_non_finite(twins.fused.outputs(twins.buffers), [0])
    assert found is not None
    assert found.member == 0
    assert found.name in {"V_high gradient of trunk.0", "gradient_norm"}


def test_the_outputs_follow_the_order_of_the_launches(make_twins):
    twins = make_twins(members=MEMBERS)
    names = [output.name for output in twins.fused.outputs(twins.buffers)]
    marks = [
        "replay_sample state",
        "V_high layer 1",
        "V_target layer 2",
        "q network layer 1",
        "q network logits",
        "c51_iql_step TD error",
        "V_high gradient of output",
        "V_low gradient of trunk.0",
        "q network gradient of head.output",
        "q network gradient of trunk.0",
        "gradient_norm",
        "accept_step means and norm",
    ]
    assert [name for name in names if name in marks] == marks
    assert len(set(names)) == len(names)


def test_each_output_of_a_network_belongs_to_its_member(make_twins):
    twins = make_twins(members=MEMBERS)
    twins.batch(0)
    value = twins.fused.networks.value
    value.gradients("trunk.1")[MEMBERS + 1].fill_(torch.nan)
    found = first_non_finite(twins.fused.outputs(twins.buffers), range(MEMBERS))
    assert found == Source("V_low gradient of trunk.1", 1)
