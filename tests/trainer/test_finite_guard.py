import math

import pytest
import torch

from trainer.errors import NonFiniteError
from trainer.finite_guard import QUANTITIES, FiniteGuard


def judge(guard, step, td_error=(), critic_loss=(), value_loss=(), norms=()):
    """Every quantity is finite but for the named members."""
    members = len(guard.skipped)
    quantities = (torch.ones(members, 3), torch.ones(members), torch.ones(members), torch.ones(members, 3))
    for quantity, bad in zip(quantities, (td_error, critic_loss, value_loss, norms), strict=True):
        for member in bad:
            quantity.view(members, -1)[member, -1] = math.nan
    return guard.judge(quantities, torch.tensor(step)).tolist()


def guard(members=3):
    return FiniteGuard(members, torch.device("cpu"))


def test_finite_members_are_accepted_and_nothing_is_raised():
    watch = guard()
    assert judge(watch, 0) == [True, True, True]
    watch.check(max_skipped_steps=0, check_finite=True)
    assert watch.skipped.tolist() == [0, 0, 0]


def test_only_the_member_that_is_not_finite_is_refused():
    assert judge(guard(), 0, td_error=[1]) == [True, False, True]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_infinity_is_refused_like_nan(value):
    watch = guard(1)
    finite = torch.ones(1)
    accept = watch.judge((torch.tensor([[1.0, value]]), finite, finite, finite), torch.tensor(0))
    assert accept.tolist() == [False]


@pytest.mark.parametrize(
    ("name", "quantity"),
    [
        ("td_error", "TD error"),
        ("critic_loss", "critic loss"),
        ("value_loss", "value loss"),
        ("norms", "gradient norm"),
    ],
)
def test_the_error_names_the_quantity_the_step_and_the_member(name, quantity):
    watch = guard()
    judge(watch, 6)
    judge(watch, 7, **{name: [2]})
    with pytest.raises(NonFiniteError, match=f"^{quantity} NaN at step 7, member 2$") as caught:
        watch.check(max_skipped_steps=0, check_finite=False)
    assert (caught.value.quantity, caught.value.step, caught.value.member) == (quantity, 7, 2)


def test_the_first_bad_quantity_in_the_order_of_the_update_is_named():
    watch = guard()
    judge(watch, 0, critic_loss=[0], value_loss=[0], norms=[0])
    assert QUANTITIES[watch.first_quantity[0]] == "critic loss"


def test_the_first_bad_step_is_remembered():
    watch = guard()
    judge(watch, 3, norms=[1])
    judge(watch, 4)
    judge(watch, 5, td_error=[1])
    assert watch.skipped.tolist() == [0, 2, 0]
    assert watch.first_step.tolist() == [-1, 3, -1]
    with pytest.raises(NonFiniteError, match="gradient norm NaN at step 3, member 1"):
        watch.check(max_skipped_steps=1, check_finite=False)


def test_as_many_steps_as_allowed_pass_and_one_more_fails():
    watch = guard()
    for step in range(10):
        judge(watch, step, td_error=[0])
    watch.check(max_skipped_steps=10, check_finite=False)
    judge(watch, 10, td_error=[0])
    with pytest.raises(NonFiniteError, match="TD error NaN at step 0, member 0"):
        watch.check(max_skipped_steps=10, check_finite=False)


def test_check_finite_allows_none():
    watch = guard()
    judge(watch, 4, td_error=[0])
    with pytest.raises(NonFiniteError):
        watch.check(max_skipped_steps=10, check_finite=True)


def test_of_two_failed_members_the_earlier_is_named():
    watch = guard()
    judge(watch, 4, td_error=[2])
    judge(watch, 5, td_error=[0, 2])
    with pytest.raises(NonFiniteError, match="step 4, member 2"):
        watch.check(max_skipped_steps=0, check_finite=False)
