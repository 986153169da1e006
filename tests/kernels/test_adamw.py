import pytest
import torch

from trainer.reference.adamw import AdamScalars, AdamState, adamw


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def scalars(members=1, dtype=torch.float64, **changed):
    values = {"learning_rate": 1e-2, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.1} | changed
    return AdamScalars(*(torch.full((members,), values[name], dtype=dtype) for name in AdamScalars._fields))


def accept_all(members=1):
    return torch.ones(members, dtype=torch.bool)


def test_the_first_step_moves_a_bias_by_the_learning_rate_against_its_gradient():
    parameters = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    adamw(
        parameters,
        torch.tensor([[2.0, -3.0]], dtype=torch.float64),
        AdamState.zeros_like(parameters),
        scalars(eps=1e-30),
        accept_all(),
        decay_width=0,
    )
    torch.testing.assert_close(parameters, torch.tensor([[0.99, 1.01]], dtype=torch.float64))


def test_weights_decay_before_the_step_and_biases_do_not():
    parameters = torch.tensor([[2.0, 2.0]], dtype=torch.float64)
    zero = torch.zeros_like(parameters)
    adamw(parameters, zero, AdamState.zeros_like(parameters), scalars(), accept_all(), decay_width=1)
    assert parameters.tolist() == [[2.0 * (1 - 1e-2 * 0.1), 2.0]]


@pytest.mark.parametrize("eps", [1e-8, 1e-1])
def test_twenty_steps_equal_torchs_adamw(eps):
    width, decay_width = 11, 7
    start = random(1, width)
    weight = torch.nn.Parameter(start[0, :decay_width].clone())
    bias = torch.nn.Parameter(start[0, decay_width:].clone())
    groups = [{"params": [weight], "weight_decay": 0.1}, {"params": [bias], "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.999), eps=eps)
    parameters, state = start.clone(), AdamState.zeros_like(start)
    for step in range(20):
        gradient = random(1, width, seed=100 + step)
        weight.grad, bias.grad = gradient[0, :decay_width].clone(), gradient[0, decay_width:].clone()
        optimiser.step()
        adamw(parameters, gradient, state, scalars(eps=eps), accept_all(), decay_width)
        expected = torch.cat([weight.detach(), bias.detach()])
        torch.testing.assert_close(parameters[0], expected, rtol=1e-10, atol=1e-10)
    assert state.step.tolist() == [20]


def test_float32_follows_float64():
    single, double = random(1, 9).float(), random(1, 9).float().double()
    states = AdamState.zeros_like(single), AdamState.zeros_like(double)
    for step in range(50):
        gradient = random(1, 9, seed=step).float()
        adamw(single, gradient, states[0], scalars(dtype=torch.float32), accept_all(), 9)
        adamw(double, gradient.double(), states[1], scalars(), accept_all(), 9)
    torch.testing.assert_close(single.double(), double, rtol=0, atol=2e-6)


def test_a_refused_member_keeps_weights_moments_and_step_and_goes_on_as_if_nothing_had_been():
    accept = torch.tensor([True, False])
    parameters = random(2, 2, 5)  # two networks of two members
    state = AdamState.zeros_like(parameters)
    alone = parameters.clone()
    alone_state = AdamState.zeros_like(alone)
    for step in range(6):
        gradient = random(2, 2, 5, seed=step)
        skipped = step in (0, 3)
        if skipped:
            before = [parameters.clone(), *(part.clone() for part in state)]
            masked = gradient * accept[:, None]
            adamw(parameters, masked, state, scalars(2), accept, 5)
            for tensor, old in zip([parameters, *state], before, strict=True):
                assert torch.equal(tensor[:, 1], old[:, 1])
                assert not torch.equal(tensor[:, 0], old[:, 0])
        else:
            adamw(parameters, gradient, state, scalars(2), accept_all(2), 5)
            adamw(alone, gradient, alone_state, scalars(2), accept_all(2), 5)
    assert state.step.tolist() == [[6, 4], [6, 4]]
    assert torch.equal(parameters[:, 1], alone[:, 1])


def test_members_have_their_own_learning_rate():
    parameters = torch.zeros(2, 3, dtype=torch.float64)
    rates = scalars(2)._replace(learning_rate=torch.tensor([0.0, 1e-2], dtype=torch.float64))
    adamw(parameters, torch.ones_like(parameters), AdamState.zeros_like(parameters), rates, accept_all(2), 3)
    assert parameters[0].tolist() == [0.0, 0.0, 0.0]
    assert (parameters[1] < 0).all()


def test_betas_of_zero_give_the_sign_of_the_gradient():
    parameters = torch.zeros(1, 2, dtype=torch.float64)
    state = AdamState.zeros_like(parameters)
    for _ in range(3):
        adamw(
            parameters,
            torch.tensor([[5.0, -0.1]], dtype=torch.float64),
            state,
            scalars(beta1=0.0, beta2=0.0, weight_decay=0.0, eps=1e-30),
            accept_all(),
            2,
        )
    torch.testing.assert_close(parameters, torch.tensor([[-0.03, 0.03]], dtype=torch.float64))
