"""The buffers of one step: shapes, padding and the weights as the loss reads them."""

import pytest
import torch

from trainer.fused.step_buffers import StepBuffers
from trainer.layout import StateLayout

CPU = torch.device("cpu")


def buffers_of(state_dim, dtype=torch.float32):
    layout = StateLayout(1, state_dim, 0, 0, (5, 3, 3))
    return StepBuffers.allocate(2, 4, layout, dtype, CPU)


@pytest.mark.parametrize(
    ("state_dim", "pitch"), [(1, 8), (6, 8), (7, 8), (8, 16), (33, 40), (56, 64), (63, 64), (127, 128)]
)
def test_a_state_row_holds_the_state_a_one_and_zeros_up_to_a_multiple_of_eight(state_dim, pitch):
    assert buffers_of(state_dim).state.shape == (3, 2, 4, pitch)


def test_the_states_of_the_three_value_networks_are_one_batch_in_the_same_memory():
    buffers = buffers_of(7)
    buffers.state[2, 1] = 5.0
    states = buffers.value_states()
    assert states.shape == (6, 4, 8)
    assert states.data_ptr() == buffers.state.data_ptr()
    assert (states[5] == 5.0).all()
    assert (states[:5] == 0.0).all()


def test_weights_are_divided_by_the_largest_but_for_rows_that_weigh_exactly_one():
    buffers = buffers_of(7)
    buffers.weight.copy_(torch.tensor([[4.0, 1.0, -1.0, 2.0], [0.5, -1.0, 0.25, 0.5]]))
    buffers.largest_weight.copy_(torch.tensor([4.0, 0.5]).view(torch.int32))
    assert buffers.importance_weight().tolist() == [[1.0, 0.25, 1.0, 0.5], [1.0, 1.0, 0.5, 1.0]]


def test_states_are_float32_or_bfloat16():
    assert buffers_of(7, torch.bfloat16).state.dtype == torch.bfloat16
    with pytest.raises(ValueError, match=r"activations are float32 or bfloat16, but got torch\.float64"):
        buffers_of(7, torch.float64)
