"""gradient_norm: slices summed in order, and squared norms of pieces."""

import pytest
import torch

from trainer.kernels.gradient_norm import gradient_norm, pieces_of, pieces_of_member


def test_a_piece_holds_two_thousand_and_forty_eight_parameters():
    assert [pieces_of(width) for width in (0, 64, 2048, 2112)] == [0, 1, 1, 2]
    assert pieces_of_member(351_936, 86_080) == 172 + 2 * 43


def normal(*shape, device):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device)


@pytest.mark.gpu
@pytest.mark.parametrize("slices", [1, 4])
@pytest.mark.parametrize(("width_q", "width_v"), [(64, 64), (2112, 4096), (10048, 1984)])
def test_pieces_add_up_to_the_norms_and_slices_to_the_gradient(cuda, guards, slices, width_q, width_v):
    members = 3
    before_q = normal(members, slices, width_q, device=cuda)
    before_v = normal(2 * members, slices, width_v, device=cuda)
    q, value = guards.like(before_q).copy_(before_q), guards.like(before_v).copy_(before_v)
    part = guards.like(torch.zeros((members, pieces_of_member(width_q, width_v)), device=cuda))
    gradient_norm(q, value, part)
    whole_q, whole_v = before_q.double().sum(1), before_v.double().sum(1)
    torch.testing.assert_close(q[:, 0].double(), whole_q, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(value[:, 0].double(), whole_v, rtol=1e-6, atol=1e-6)
    squares = part.double().split([pieces_of(width_q), pieces_of(width_v), pieces_of(width_v)], 1)
    expected = [whole_q, whole_v[:members], whole_v[members:]]
    for ours, gradient in zip(squares, expected, strict=True):
        torch.testing.assert_close(ours.sum(1), gradient.square().sum(1), rtol=1e-5, atol=0.0)
    assert guards.intact()


@pytest.mark.gpu
def test_without_value_networks_only_q_is_read(cuda):
    q = normal(2, 1, 4096, device=cuda)
    part = torch.full((2, 2), float("nan"), device=cuda)
    gradient_norm(q, None, part)
    torch.testing.assert_close(part.sum(1), q.square().sum((1, 2)), rtol=1e-5, atol=0.0)


@pytest.mark.gpu
def test_a_second_run_gives_the_same_bits(cuda):
    part = torch.zeros((2, 60, 3), device=cuda)
    for run in range(2):
        q = normal(60, 4, 6080, device=cuda)
        gradient_norm(q, None, part[run])
    assert torch.equal(part[0], part[1])
