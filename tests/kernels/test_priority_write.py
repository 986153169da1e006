"""Priority updates against a loop over rows in plain Python; the kernel against the reference."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.config import TrainerConfig
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.priority_write import priority_write as write_by_kernel
from trainer.reference.prioritised_sample import mass_of
from trainer.reference.priority_write import priority_of, priority_write, written_rows

CAPACITY = 6


def written(priority, largest, index, td_error, alpha, rows):
    """Writes into copies and returns (priority, mass, largest)."""
    priority, largest = priority.clone(), largest.clone()
    mass = mass_of(priority)
    priority_write(priority, mass, largest, index, td_error, alpha, rows)
    return priority, mass, largest


@pytest.mark.parametrize(
    ("error", "alpha", "expected"),
    [
        (0.0, 0.6, 2.5118864e-4),
        (1.0, 0.6, 1.0000006),
        (-4.0, 0.5, 2.0),
        (3.0, 1.0, 3.000001),
        (1000.0, 1.0, 255.0),
        (math.inf, 1.0, 255.0),
        (7.0, 0.0, 1.0),
    ],
)
def test_a_priority_is_the_clipped_error_to_the_power_alpha(error, alpha, expected):
    q = priority_of(torch.tensor([[error]]), torch.tensor([alpha]))
    assert q.dtype == torch.float32
    assert float(q) == pytest.approx(expected, rel=1e-6)


def test_among_rows_of_one_slot_the_largest_new_value_wins_whatever_stood_there():
    priority, largest = torch.full((1, CAPACITY), 9.0), torch.tensor([10.0])
    index = torch.tensor([[2, 4, 2, 2]])
    td_error = torch.tensor([[1.0, 5.0, -3.0, 2.0]])
    after, mass, biggest = written(
        priority, largest, index, td_error, torch.tensor([1.0]), torch.ones(1, 4, dtype=torch.bool)
    )
    torch.testing.assert_close(after, torch.tensor([[9.0, 9.0, 3.000001, 9.0, 5.000001, 9.0]]))
    assert torch.equal(mass, mass_of(after))
    assert biggest.tolist() == [10.0]


def test_relabelled_rows_write_nothing_and_leave_the_running_maximum():
    rows = written_rows(torch.tensor([[8.0, 2.0, 3.0]]), torch.tensor([1]), torch.tensor([True]))
    assert rows.tolist() == [[False, True, True]]
    after, _, biggest = written(
        torch.ones(1, CAPACITY),
        torch.tensor([1.0]),
        torch.tensor([[0, 1, 0]]),
        torch.tensor([[8.0, 2.0, 3.0]]),
        torch.tensor([1.0]),
        rows,
    )
    torch.testing.assert_close(after, torch.tensor([[3.000001, 2.000001, 1.0, 1.0, 1.0, 1.0]]))
    assert biggest.tolist() == [3.0]


def test_the_running_maximum_keeps_raw_errors_above_the_clip_and_never_falls():
    largest = torch.tensor([1.0])
    for error, expected in [(0.5, 1.0), (1000.0, 1000.0), (2.0, 1000.0)]:
        _, _, largest = written(
            torch.ones(1, CAPACITY),
            largest,
            torch.tensor([[0]]),
            torch.tensor([[error]]),
            torch.tensor([1.0]),
            torch.tensor([[True]]),
        )
        assert largest.tolist() == [expected]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_non_finite_error_keeps_the_whole_member_from_writing(bad):
    td_error = torch.tensor([[1.0, bad, 3.0], [1.0, 2.0, 3.0]])
    rows = written_rows(td_error, torch.tensor([0, 0]), torch.tensor([True, True]))
    assert rows.tolist() == [[False] * 3, [True] * 3]
    priority = torch.full((2, CAPACITY), 0.5)
    after, mass, largest = written(
        priority, torch.ones(2), torch.tensor([[0, 1, 2]] * 2), td_error, torch.ones(2), rows
    )
    assert torch.equal(after[0], priority[0])
    assert torch.equal(mass[0], mass_of(priority[0]))
    assert largest.tolist() == [1.0, 3.0]


def test_a_refused_member_writes_nothing():
    rows = written_rows(torch.ones(2, 3), torch.tensor([0, 0]), torch.tensor([False, True]))
    assert rows.tolist() == [[False] * 3, [True] * 3]


row = st.tuples(
    st.integers(0, CAPACITY - 1),
    st.floats(-300.0, 300.0, width=32),
    st.booleans(),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(row, min_size=1, max_size=20), st.sampled_from([0.0, 0.6, 1.0]))
def test_a_batch_with_duplicates_equals_a_loop_over_its_rows(rows, alpha):
    index, errors, may_write = (torch.tensor([list(column)]) for column in zip(*rows, strict=True))
    before = torch.linspace(0.0, 2.0, CAPACITY)[None]
    after, mass, largest = written(
        before, torch.tensor([1.0]), index, errors, torch.tensor([alpha]), may_write
    )
    q = priority_of(errors, torch.tensor([alpha]))[0].tolist()
    expected = before[0].tolist()
    for slot in range(CAPACITY):
        new = [q[r] for r, (at, _, writes) in enumerate(rows) if writes and at == slot]
        expected[slot] = max(new, default=expected[slot])
    assert after[0].tolist() == expected
    assert torch.equal(mass, mass_of(after))
    assert largest.tolist() == [max([1.0, *(abs(error) for _, error, writes in rows if writes)])]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch_size", [1, 7, 33, 256])
def test_a_member_writes_the_same_bits_in_a_stack_as_alone(dtype, batch_size):
    generator = torch.Generator().manual_seed(batch_size)
    priority, largest = torch.rand(5, 40, generator=generator), torch.ones(5)
    index = torch.randint(0, 40, (5, batch_size), generator=generator)
    td_error = torch.randn(5, batch_size, generator=generator, dtype=dtype)
    alpha, rows = torch.rand(5, generator=generator), torch.rand(5, batch_size, generator=generator) < 0.7
    stacked = written(priority, largest, index, td_error, alpha, rows)
    for member in range(5):
        at = slice(member, member + 1)
        alone = written(priority[at], largest[at], index[at], td_error[at], alpha[at], rows[at])
        for together, apart in zip(stacked, alone, strict=True):
            assert torch.equal(together[at], apart)


ALPHAS = (0.0, 0.3, 0.6, 1.0)
PRIORITY_TOLERANCE = 3e-6  # one unit in the last place of log(1e-6) is 1e-6 of its exponential


def write_case(batch_size, capacity, her_ratio=0.4):
    """Four members of different alpha, duplicates in the batch, errors over many orders of magnitude."""
    configs = [
        TrainerConfig().with_overrides({"per_alpha": alpha, "her_ratio": her_ratio, "batch_size": batch_size})
        for alpha in ALPHAS
    ]
    hyper = Hyperparameters.stack(configs, torch.float32, torch.device("cpu"))
    generator = torch.Generator().manual_seed(batch_size)
    priority = torch.rand(4, capacity, generator=generator)
    index = torch.randint(0, capacity, (4, batch_size), generator=generator)
    td_error = torch.exp(4.0 * torch.randn(4, batch_size, generator=generator))
    td_error *= torch.randn(4, batch_size, generator=generator).sign()
    return hyper, priority, index, td_error


def write_on(device, hyper, priority, index, td_error, accept, guards):
    """Returns (priority, largest_error) after the kernel, on the CPU."""
    hyper = Hyperparameters(**{name: value.to(device) for name, value in vars(hyper).items()})
    ring = guards.like(priority.to(device)).copy_(priority)
    largest = guards.like(torch.zeros(4, device=device)).fill_(1.0)
    write_by_kernel(
        ring,
        largest,
        index.to(device, torch.int32),
        td_error.to(device),
        torch.tensor(accept, dtype=torch.int32, device=device),
        hyper,
    )
    assert guards.intact()
    return ring.cpu(), largest.cpu()


def write_by_reference(hyper, priority, index, td_error, accept):
    rows = written_rows(td_error, hyper.her_size, torch.tensor(accept) != 0)
    after, _, largest = written(priority, torch.ones(4), index, td_error, hyper.per_alpha, rows)
    return after, largest


@pytest.mark.gpu
@pytest.mark.parametrize("capacity", [1, 50, 5000])
@pytest.mark.parametrize("batch_size", [1, 31, 33, 257, 1000, 4096, 4097, 9001])
def test_the_kernel_writes_what_the_reference_writes(batch_size, capacity, cuda, guards):
    case = write_case(batch_size, capacity)
    accept = [1, 1, 0, 1]
    priority, largest = write_on(cuda, *case, accept, guards)
    expected, biggest = write_by_reference(*case, accept)
    torch.testing.assert_close(priority, expected, rtol=PRIORITY_TOLERANCE, atol=0.0)
    assert torch.equal(largest, biggest)
    assert torch.equal(priority[2], case[1][2])
    unwritten = expected == case[1]
    assert torch.equal(priority[unwritten], case[1][unwritten])


@pytest.mark.gpu
@pytest.mark.parametrize("batch_size", [100, 5000])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_the_kernel_leaves_a_member_with_a_non_finite_error_as_it_was(batch_size, bad, cuda, guards):
    hyper, priority, index, td_error = write_case(batch_size, 60)
    td_error[1, 0] = bad  # a relabelled row counts as well
    td_error[3, -1] = bad
    after, largest = write_on(cuda, hyper, priority, index, td_error, [1] * 4, guards)
    expected, biggest = write_by_reference(hyper, priority, index, td_error, [1] * 4)
    assert torch.equal(after[[1, 3]], priority[[1, 3]])
    assert largest[[1, 3]].tolist() == [1.0, 1.0]
    torch.testing.assert_close(after, expected, rtol=PRIORITY_TOLERANCE, atol=0.0)
    assert torch.equal(largest, biggest)


@pytest.mark.gpu
@pytest.mark.parametrize("her_ratio", [0.0, 1.0])
def test_the_kernel_writes_all_rows_or_none_at_the_ends_of_the_ratio(her_ratio, cuda, guards):
    case = write_case(300, 40, her_ratio)
    after, largest = write_on(cuda, *case, [1] * 4, guards)
    expected, biggest = write_by_reference(*case, [1] * 4)
    torch.testing.assert_close(after, expected, rtol=PRIORITY_TOLERANCE, atol=0.0)
    assert torch.equal(largest, biggest)
    assert torch.equal(after, case[1]) == (her_ratio == 1.0)


@pytest.mark.gpu
@pytest.mark.parametrize("batch_size", [1000, 9001])
def test_the_kernel_repeats_itself_bit_for_bit_and_agrees_on_duplicates(batch_size, cuda, guards):
    case = write_case(batch_size, 50)
    first, again = (write_on(cuda, *case, [1] * 4, guards) for _ in range(2))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
