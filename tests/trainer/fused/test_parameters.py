"""The padded layout: where everything stands, what stays zero, and the way to the reference and back."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.config import TrainerConfig
from trainer.fused.padded_block import q_block, value_block
from trainer.fused.shapes import FusedShapes, round_up
from trainer.layout import StateLayout
from trainer.networks import QNetwork, ValueNetwork

CPU = torch.device("cpu")
widths = st.integers(1, 20)
shapes = st.builds(
    FusedShapes,
    state_dim=widths,
    trunk_widths=st.lists(widths, min_size=1, max_size=3).map(tuple),
    head_width=widths,
    num_atoms=st.integers(2, 20),
    actions_per_branch=st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple),
)


def reference_blocks(shape, networks):
    """The reference's layouts of Q and of a value network of the same widths."""
    overrides = {
        "trunk_widths": shape.trunk_widths,
        "head_width": shape.head_width,
        "num_atoms": shape.num_atoms,
    }
    config = TrainerConfig().with_overrides(overrides).agent
    layout = StateLayout(0, shape.state_dim, 0, 0, shape.actions_per_branch)
    return tuple(
        kind(config, layout, networks, torch.float32, CPU).block for kind in (QNetwork, ValueNetwork)
    )


def count_of(block, *, decays):
    return sum(spec.size for spec in block.specs if spec.decays is decays)


@pytest.mark.parametrize(("width", "expected"), [(1, 8), (8, 8), (9, 16), (63, 64), (64, 64), (65, 72)])
def test_widths_are_rounded_up_to_eight(width, expected):
    assert round_up(width) == expected


def test_the_widths_of_the_usual_networks():
    shape = FusedShapes(56, (256, 256), 128, 51, (5, 3, 3))
    assert shape.state_pitch == 64
    assert shape.trunk_pitches == (264, 264)
    assert shape.logit_width == 12 * 56
    assert [shape.logit_columns_of(head) for head in range(4)] == [
        slice(0, 56),
        slice(56, 336),
        slice(336, 504),
        slice(504, 672),
    ]


def test_a_state_that_fills_its_row_gets_a_column_for_the_bias():
    assert FusedShapes(64, (8,), 8, 8, (3,)).state_pitch == 72


@given(shape=shapes)
@settings(deadline=None, max_examples=25)
def test_packing_and_unpacking_return_every_parameter_and_leave_the_padding_zero(shape):
    for block, reference in zip(
        (q_block(shape), value_block(shape)), reference_blocks(shape, 2), strict=True
    ):
        source = torch.zeros_like(reference.value)
        for number, spec in enumerate(reference.specs):
            view = reference.view(spec.name, source)
            view.copy_(torch.arange(1, view.numel() + 1).view_as(view) + 1000 * number)
        flat = torch.full((2, block.width), float("nan"))
        block.pack(reference, source, flat)
        assert torch.equal(block.unpack(flat, reference), source)
        used = sum(spec.size for spec in reference.specs)
        assert (flat != 0).sum(1).tolist() == [used, used]
        assert block.width % 64 == 0


@given(shape=shapes)
@settings(deadline=None, max_examples=25)
def test_weights_decay_and_biases_do_not(shape):
    for block, reference in zip(
        (q_block(shape), value_block(shape)), reference_blocks(shape, 1), strict=True
    ):
        marks = block.decays(CPU).repeat_interleave(4).float()
        for decays in (True, False):
            flat = torch.zeros((1, block.width))
            source = torch.zeros_like(reference.value)
            for spec in reference.specs:
                reference.view(spec.name, source).fill_(float(spec.decays is decays))
            block.pack(reference, source, flat)
            assert (marks * flat[0]).sum() == (count_of(reference, decays=True) if decays else 0)


@pytest.mark.parametrize("use_iql", [True, False])
def test_initial_values_equal_the_references_bit_for_bit(make_twins, use_iql):
    twins = make_twins(members=3, folds=(2, 0, 5), use_iql=use_iql)
    ours, theirs = twins.fused.state_dict(), twins.reference.state_dict()
    assert ours["q"].abs().max() > 0.1
    assert all(torch.equal(ours[name], theirs[name].to(ours[name].dtype)) for name in theirs)


def test_the_product_operands_of_bf16_are_the_rounded_parameters(make_twins):
    q = make_twins(precision="bf16").fused.networks.q
    assert q.operand.dtype == torch.bfloat16
    assert torch.equal(q.operand, q.value.to(torch.bfloat16))


def test_the_product_operands_of_fp32_are_the_parameters_themselves(make_twins):
    q = make_twins(precision="fp32").fused.networks.q
    assert q.operand is q.value
