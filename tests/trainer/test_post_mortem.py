import math

import pytest
import torch

from trainer.errors import NonFiniteError
from trainer.finite_guard import FiniteGuard
from trainer.post_mortem import Output, Source, first_non_finite


def output(name, *bad, members=4):
    """A [M, 2, 3] output whose named members end in NaN."""
    value = torch.zeros(members, 2, 3)
    for member in bad:
        value[member, -1, -1] = math.nan
    return Output(name, value)


def test_the_first_output_in_order_is_named_with_its_first_member():
    outputs = [output("state"), output("layer 1", 2, 3), output("logits", 0, 2, 3)]
    assert first_non_finite(outputs, [3, 2, 0]) == Source("layer 1", 2)


def test_members_whose_step_was_accepted_are_passed_over():
    outputs = [output("state", 1), output("logits", 3)]
    assert first_non_finite(outputs, [3]) == Source("logits", 3)


def test_where_everything_is_finite_nothing_is_named():
    assert first_non_finite([output("state"), output("logits")], [0, 1, 2, 3]) is None


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_infinity_counts_like_nan(value):
    assert first_non_finite([Output("reward", torch.tensor([0.0, value]))], [1]) == Source("reward", 1)


def test_no_output_behind_the_first_bad_one_is_asked_for():
    def outputs():
        yield output("state", 0)
        raise AssertionError("asked for more")

    assert first_non_finite(outputs(), [0]) == Source("state", 0)


def refused(*members):
    guard = FiniteGuard(4, torch.device("cpu"))
    error = torch.zeros(4, 1)
    error[list(members)] = math.nan
    finite = torch.zeros(4)
    guard.judge((error, finite, finite, finite), torch.tensor(12))
    return guard


def test_the_message_ends_with_the_first_output_that_is_not_finite():
    outputs = [output("state"), output("q network layer 2", 3)]
    with pytest.raises(NonFiniteError) as caught:
        refused(3).check(0, check_finite=True, outputs=outputs)
    assert str(caught.value) == (
        "TD error NaN at step 12, member 3; first non-finite output: q network layer 2"
    )
    assert caught.value.source == "q network layer 2"


def test_a_source_in_another_member_is_named_with_it():
    outputs = [output("reward", 2), output("q network layer 2", 1, 2)]
    with pytest.raises(
        NonFiniteError, match=r"step 12, member 1; first non-finite output: reward of member 2$"
    ):
        refused(1, 2).check(0, check_finite=True, outputs=outputs)


def test_without_outputs_the_message_ends_with_the_member():
    with pytest.raises(NonFiniteError, match=r"^TD error NaN at step 12, member 3$") as caught:
        refused(3).check(0, check_finite=True)
    assert caught.value.source is None
