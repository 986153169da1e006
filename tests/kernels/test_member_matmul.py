import pytest
import torch

from trainer.reference.member_matmul import AffineStack, member_matmul


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def random(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def layer_of(weight, bias, groups=None):
    # NaN in the gradients: the backward pass must overwrite all of them
    return AffineStack(
        weight, bias, torch.full_like(weight, torch.nan), torch.full_like(bias, torch.nan), groups
    )


def test_a_layer_multiplies_by_its_own_members_weight_and_adds_its_bias():
    weight = torch.tensor([[[1.0, 2.0]], [[-1.0, 0.5]]])
    bias = torch.tensor([[10.0, 20.0], [0.0, 1.0]])
    x = torch.tensor([[[3.0]], [[4.0]]])
    y = member_matmul(x, layer_of(weight, bias))
    assert y.tolist() == [[[13.0, 26.0]], [[-4.0, 3.0]]]


def test_the_gradients_equal_those_of_autograd_through_a_batched_product():
    weight, bias, x = random(3, 7, 5, seed=1), random(3, 5, seed=2), random(3, 9, 7, seed=3).requires_grad_()
    layer = layer_of(weight, bias)
    upstream = random(3, 9, 5, seed=4)
    got = torch.autograd.grad(member_matmul(x, layer), [x, layer.weight, layer.bias], upstream)
    w, b = weight.clone().requires_grad_(), bias.clone().requires_grad_()
    expected = torch.autograd.grad(torch.bmm(x, w) + b[:, None], [x, w, b], upstream)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(layer.weight_gradient, expected[1], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(layer.bias_gradient, expected[2], rtol=1e-10, atol=1e-10)


def test_grouped_columns_are_independent_layers():
    groups = ((slice(0, 2), slice(0, 1)), (slice(2, 4), slice(1, 4)))
    weight, bias, x = random(2, 2, 4, seed=1), random(2, 4, seed=2), random(2, 3, 4, seed=3).requires_grad_()
    layer = layer_of(weight, bias, groups)
    y = member_matmul(x, layer)
    w, b = weight.clone().requires_grad_(), bias.clone().requires_grad_()
    parts = [x[:, :, :2] @ w[:, :, :1], x[:, :, 2:] @ w[:, :, 1:]]
    expected = torch.cat(parts, 2) + b[:, None]
    torch.testing.assert_close(y, expected)
    upstream = random(2, 3, 4, seed=4)
    got = torch.autograd.grad(y, [x, layer.weight, layer.bias], upstream)
    wanted = torch.autograd.grad(expected, [x, w, b], upstream)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_twice_as_many_networks_as_inputs_share_the_inputs_in_order():
    weight, bias, x = random(4, 3, 2), random(4, 2, seed=1), random(2, 5, 3, seed=2)
    shared = member_matmul(x, layer_of(weight, bias), networks=4)
    repeated = member_matmul(torch.cat([x, x]), layer_of(weight, bias))
    assert torch.equal(shared, repeated)


def test_fewer_inputs_than_networks_use_the_first_networks():
    weight, bias, x = random(4, 3, 2), random(4, 2, seed=1), random(2, 5, 3, seed=2)
    first = member_matmul(x, layer_of(weight, bias))
    assert torch.equal(first, member_matmul(x, layer_of(weight[:2].clone(), bias[:2].clone())))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch", [1, 31, 33, 257])
@pytest.mark.parametrize(("inputs", "outputs"), [(7, 33), (33, 1), (56, 64), (33, 105)])
def test_a_member_of_a_stack_equals_the_member_alone_bit_for_bit(dtype, batch, inputs, outputs):
    members = 5
    weight = random(members, inputs, outputs, dtype=dtype, seed=1)
    bias, x = (
        random(members, outputs, dtype=dtype, seed=2),
        random(members, batch, inputs, dtype=dtype, seed=3),
    )
    upstream = random(members, batch, outputs, dtype=dtype, seed=4)

    def run(rows):
        layer, leaf = layer_of(weight[rows].clone(), bias[rows].clone()), x[rows].clone().requires_grad_()
        y = member_matmul(leaf, layer)
        return [y, *torch.autograd.grad(y, [leaf, layer.weight, layer.bias], upstream[rows].clone())]

    stacked = run(slice(None))
    for m in range(members):
        for whole, alone in zip(stacked, run(slice(m, m + 1)), strict=True):
            assert torch.equal(whole[m], alone[0])
