import math

import pytest
import torch

from trainer.parameter_block import ALIGNMENT, ParameterBlock, ParameterSpec
from trainer.reference.philox import Purpose, philox

CPU = torch.device("cpu")
SPECS = (
    ParameterSpec("a.weight", (3, 5), 3, decays=True),
    ParameterSpec("a.bias", (5,), 3, decays=False),
    ParameterSpec("b.weight", (5, 7), 5, decays=True),
    ParameterSpec("b.bias", (7,), 5, decays=False),
)


def block(networks=2, dtype=torch.float32):
    return ParameterBlock(SPECS, networks, dtype, CPU)


def test_views_share_memory_with_the_flat_block_and_do_not_overlap():
    parameters = block()
    for number, spec in enumerate(SPECS, 1):
        parameters.view(spec.name).fill_(number)
    for number, spec in enumerate(SPECS, 1):
        assert (parameters.view(spec.name) == number).all()
        assert (parameters.value == number).sum().item() == 2 * spec.size


def test_the_weights_stand_before_the_decay_width_and_all_else_behind_it():
    parameters = block()
    for spec in SPECS:
        columns = torch.zeros_like(parameters.value)
        parameters.view(spec.name, columns).fill_(1.0)
        decaying = columns[0].nonzero().flatten() < parameters.decay_width
        assert decaying.tolist() == [spec.decays] * spec.size


def test_every_tensor_of_every_network_starts_on_the_same_alignment():
    parameters = block(networks=3)
    for spec in SPECS:
        view = parameters.view(spec.name)
        assert view.storage_offset() % ALIGNMENT == 0
        assert view.stride(0) % ALIGNMENT == 0


def test_initial_values_are_uniform_within_one_over_the_root_of_the_inputs():
    spec = ParameterSpec("w", (64, 128), 64, decays=True)
    parameters = ParameterBlock((spec,), 1, torch.float64, CPU)
    parameters.initialise(slice(None), torch.tensor([[0, 0]]), 0)
    values = parameters.view("w").flatten() * math.sqrt(64)
    assert values.abs().max() <= 1
    assert values.mean().abs() < 0.03
    assert values.square().mean().item() == pytest.approx(1 / 3, abs=0.02)
    assert values.max() > 0.99
    assert values.min() < -0.99


def test_the_first_values_are_the_words_of_the_counter():
    parameters = block(networks=1)
    assert parameters.initialise(slice(None), torch.tensor([[5, 2]]), 10) == 14
    counter = torch.tensor([int(Purpose.INITIAL_WEIGHT), 11, 1, 0])  # second tensor, elements 4 to 7
    word = philox(torch.tensor([5, 2]), counter)[0].item()
    expected = ((word >> 8) * 2.0**-24 * 2 - 1) / math.sqrt(3)
    assert parameters.view("a.bias")[0, 4].item() == pytest.approx(expected, abs=1e-7)


def test_initial_values_depend_on_the_key_and_not_on_the_place_in_the_stack():
    keys = torch.tensor([[0, 0], [0, 1], [1, 0]])
    stacked, alone = block(networks=3), block(networks=1)
    stacked.initialise(slice(None), keys, 4)
    alone.initialise(slice(None), keys[2:], 4)
    assert torch.equal(stacked.value[2], alone.value[0])
    assert not torch.equal(stacked.value[0], stacked.value[1])
    assert not torch.equal(stacked.value[0], stacked.value[2])


def test_float64_starts_from_the_values_of_float32():
    single, double = block(), block(dtype=torch.float64)
    for parameters in (single, double):
        parameters.initialise(slice(None), torch.tensor([[3, 0], [3, 1]]), 0)
    assert torch.equal(single.value.double(), double.value)


def test_the_gaps_between_tensors_stay_zero():
    parameters = block(networks=1)
    parameters.initialise(slice(None), torch.tensor([[0, 0]]), 0)
    inside = torch.zeros_like(parameters.value)
    for spec in SPECS:
        parameters.view(spec.name, inside).fill_(1.0)
    assert (parameters.value[inside == 0] == 0).all()
