"""relu: the rectifier on the product columns of padded rows."""

import pytest
import torch

from trainer.kernels.relu import blocks_of, relu

TYPES = (torch.float32, torch.bfloat16)


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "expected"),
    [
        (1, 8, torch.float32, 1),
        (256, 256, torch.float32, 64),
        (256, 256, torch.bfloat16, 32),
        (33, 264, torch.bfloat16, 5),
    ],
)
def test_every_sixteen_bytes_have_a_thread(rows, columns, dtype, expected):
    assert blocks_of(rows, columns, dtype) == expected


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("networks", "rows", "columns"), [(1, 1, 8), (3, 31, 24), (2, 257, 264), (1, 33, 640)]
)
def test_product_columns_are_rectified_and_the_others_untouched(cuda, guards, dtype, networks, rows, columns):
    before = torch.randn((networks, rows, columns + 8), device=cuda).to(dtype)
    hidden = guards.like(before).copy_(before)
    relu(hidden, columns)
    assert torch.equal(hidden[..., :columns], torch.relu(before[..., :columns]))
    assert torch.equal(hidden[..., columns:], before[..., columns:])
    assert guards.intact()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TYPES)
def test_nan_stays_nan_and_infinity_stays(cuda, dtype):
    hidden = torch.zeros((1, 1, 16), dtype=dtype, device=cuda)
    hidden[0, 0, :3] = torch.tensor([float("nan"), float("inf"), float("-inf")])
    relu(hidden, 8)
    assert hidden[0, 0, 0].isnan()
    assert hidden[0, 0, 1:3].tolist() == [float("inf"), 0.0]
