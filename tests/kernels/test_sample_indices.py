"""Prioritised draws on the GPU against the reference on the CPU: the same slots, the same weights."""

import pytest
import torch

from trainer.config import TrainerConfig
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.priority_sums import PrioritySums, priority_sums
from trainer.kernels.sample_indices import DrawInputs, sample_indices
from trainer.reference.importance_weight import annealed_beta, importance_weight
from trainer.reference.prioritised_sample import mass_of, prioritised_sample

pytestmark = pytest.mark.gpu

CPU = torch.device("cpu")
WEIGHT_TOLERANCE = 1e-6


def hyperparameters(members, device):
    configs = [TrainerConfig().with_overrides({"per_beta": 0.2 * (m % 5)}) for m in range(members)]
    return Hyperparameters.stack(configs, torch.float32, device)


def uneven(members, capacity, seed=0):
    generator = torch.Generator().manual_seed(seed)
    q = torch.exp(3 * torch.randn(members, capacity, generator=generator)).clamp(max=255.0)
    q[torch.rand(members, capacity, generator=generator) < 0.3] = 0.0
    q[:, -1] = 1.0
    return q


def keys_of(members):
    return torch.tensor([[11, fold] for fold in range(members)])


def draw_on(device, priority, batch_size, step, written, guards):
    """Returns (index, importance weight) as the kernels make them, on the CPU."""
    members, capacity = priority.shape
    q = priority.to(device)
    sums = PrioritySums.allocate(members, capacity, device)
    index = guards.like(torch.zeros(members, batch_size, dtype=torch.int32, device=device))
    weight = guards.like(torch.zeros(members, batch_size, device=device))
    largest = guards.like(torch.zeros(members, dtype=torch.int32, device=device))
    priority_sums(q, sums, largest)
    inputs = DrawInputs(
        q,
        sums,
        torch.tensor(written, device=device),
        keys_of(members).to(device),
        torch.tensor(step, device=device),
    )
    sample_indices(inputs, hyperparameters(members, device), index, weight, largest)
    return index.cpu(), (weight / largest.view(torch.float32)[:, None]).cpu()


def draw_by_reference(priority, batch_size, step, written):
    members, capacity = priority.shape
    hyper, at = hyperparameters(members, CPU), torch.tensor(step)
    drawn = prioritised_sample(mass_of(priority), batch_size, at, keys_of(members))
    beta = annealed_beta(at, hyper.per_beta, hyper.total_updates)
    count = torch.tensor(min(written, capacity))
    return drawn.index, importance_weight(drawn.mass, drawn.total, count, beta)


@pytest.mark.parametrize("batch_size", [1, 31, 33, 257, 1000])
@pytest.mark.parametrize("capacity", [1, 7, 128, 1000, 1024, 5001, 131_072])
def test_slots_equal_those_of_the_reference_and_weights_to_a_millionth(capacity, batch_size, cuda, guards):
    priority = uneven(3, capacity)
    for step, written in [(0, capacity), (5000, 3 * capacity + 1), (10_239, 2**40)]:
        index, weight = draw_on(cuda, priority, batch_size, step, written, guards)
        expected, reference = draw_by_reference(priority, batch_size, step, written)
        assert torch.equal(index, expected.int())
        torch.testing.assert_close(weight.double(), reference, rtol=WEIGHT_TOLERANCE, atol=0.0)
        assert (priority.gather(1, index.long()) > 0.0).all()
    assert guards.intact()


@pytest.mark.parametrize("value", [None, 255.0, 1e-6])
def test_two_million_slots_are_searched_exactly(value, cuda, guards):
    capacity = 2**21
    priority = uneven(1, capacity) if value is None else torch.full((1, capacity), value)
    index, weight = draw_on(cuda, priority, 1000, 3, capacity, guards)
    expected, reference = draw_by_reference(priority, 1000, 3, capacity)
    assert torch.equal(index, expected.int())
    torch.testing.assert_close(weight.double(), reference, rtol=WEIGHT_TOLERANCE, atol=0.0)


def test_a_single_slot_of_any_place_is_found_by_every_row(cuda, guards):
    for slot in (0, 1, 3, 4, 127, 128, 1023, 1024, 2046, 2047, 2048, 2999):
        priority = torch.zeros(2, 3000)
        priority[:, slot] = 1e-3
        index, weight = draw_on(cuda, priority, 40, 1, 3000, guards)
        assert (index == slot).all()
        assert (weight == 1.0).all()


def test_a_draw_on_the_border_of_slots_lanes_groups_and_blocks_goes_to_the_later_one(cuda, guards):
    """Six units of mass and six strata: every draw equals a prefix sum, at every level of the search."""
    unit, priority = 2.0**-32, torch.zeros(100, 2000)
    priority[:, [1, 2, 5, 130, 1030]] = torch.tensor([unit, unit, unit, unit, 2 * unit])
    index, _ = draw_on(cuda, priority, 6, 1, 2000, guards)
    assert (index.sort(dim=1).values == torch.tensor([1, 2, 5, 130, 1030, 1030])).all()


def test_the_step_reaches_beyond_32_bits_and_every_step_draws_anew(cuda, guards):
    priority = uneven(2, 4000)
    drawn = [draw_on(cuda, priority, 64, step, 4000, guards)[0] for step in (1, 2, 2**32 + 1)]
    assert not torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], drawn[2])


def test_a_member_draws_the_same_bits_alone_as_in_a_stack_of_many(cuda, guards):
    """A larger stack takes more rows per block, which must change nothing."""
    priority = uneven(60, 2000)
    together = draw_on(cuda, priority, 999, 4, 2000, guards)
    alone = draw_on(cuda, priority[:1], 999, 4, 2000, guards)
    for stacked, single in zip(together, alone, strict=True):
        assert torch.equal(stacked[:1], single)


def test_two_draws_of_one_step_agree_bit_for_bit(cuda, guards):
    priority = uneven(5, 3001)
    first, again = (draw_on(cuda, priority, 333, 9, 3001, guards) for _ in range(2))
    assert all(torch.equal(left, right) for left, right in zip(first, again, strict=True))
