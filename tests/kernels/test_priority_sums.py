"""Sums of integer priorities on the GPU: exact, whatever the capacity."""

import pytest
import torch

from trainer.kernels.priority_sums import PrioritySums, priority_sums
from trainer.reference.prioritised_sample import mass_of

CAPACITIES = [1, 3, 127, 128, 129, 1023, 1024, 1025, 4098, 100_000]


@pytest.mark.parametrize("capacity", [0, 1, 1024, 1025, 2**21])
def test_a_block_holds_1024_slots_and_8_groups(capacity):
    sums = PrioritySums.allocate(2, capacity, torch.device("cpu"))
    blocks = -(-capacity // 1024)
    assert sums.block_mass.shape == (2, blocks)
    assert sums.group_mass.shape == (2, 8 * blocks)


def test_a_capacity_whose_sums_could_overflow_is_refused():
    with pytest.raises(ValueError, match=r"`capacity <= 2097152` must hold, but got 2097153"):
        PrioritySums.allocate(1, 2**21 + 1, torch.device("cpu"))


def expected_sums(priority, width, count):
    mass = torch.nn.functional.pad(mass_of(priority), (0, width * count - priority.shape[1]))
    return mass.view(-1, count, width).sum(dim=2)


@pytest.mark.gpu
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_every_sum_is_the_integer_sum_of_the_rounded_priorities(capacity, cuda, guards):
    generator = torch.Generator().manual_seed(capacity)
    priority = torch.exp(4 * torch.randn(3, capacity, generator=generator)).clamp(max=255.0)
    priority[torch.rand(3, capacity, generator=generator) < 0.2] = 0.0
    shape = PrioritySums.allocate(3, capacity, cuda)
    sums = PrioritySums(guards.like(shape.group_mass), guards.like(shape.block_mass))
    largest = guards.like(torch.zeros(3, dtype=torch.int32, device=cuda))
    priority_sums(priority.to(cuda), sums, largest)
    blocks = sums.block_mass.shape[1]
    assert torch.equal(sums.block_mass.cpu(), expected_sums(priority, 1024, blocks))
    assert torch.equal(sums.group_mass.cpu(), expected_sums(priority, 128, 8 * blocks))
    assert largest.tolist() == [0, 0, 0]
    assert guards.intact()


@pytest.mark.gpu
def test_the_largest_totals_of_the_contract_do_not_overflow(cuda):
    sums = PrioritySums.allocate(1, 2**21, cuda)
    largest = torch.ones(1, dtype=torch.int32, device=cuda)
    priority_sums(torch.full((1, 2**21), 255.0, device=cuda), sums, largest)
    assert (sums.block_mass == 255 * 2**42).all()
    assert int(sums.block_mass.sum()) == 255 * 2**53


@pytest.mark.gpu
def test_halves_are_rounded_to_the_even_integer(cuda):
    sums = PrioritySums.allocate(1, 3, cuda)
    halves = torch.tensor([[0.5 * 2.0**-32, 1.5 * 2.0**-32, 2.5 * 2.0**-32]], device=cuda)
    priority_sums(halves, sums, torch.zeros(1, dtype=torch.int32, device=cuda))
    assert sums.block_mass.tolist() == [[4]]
