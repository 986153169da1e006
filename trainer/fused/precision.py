"""Precision of matrix products: what their operands are rounded to. Sums are float32 in every mode."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Precision = Literal["fp32", "tf32", "bf16"]


def activation_dtype(precision: Precision) -> torch.dtype:
    """Returns the type of states, activations and their gradients."""
    return torch.bfloat16 if precision == "bf16" else torch.float32


@contextmanager
def matmul_precision(precision: Precision) -> Iterator[None]:
    """Sets torch's switches for CUDA products and restores them; they are read when a graph is captured."""
    switches = torch.backends.cuda.matmul
    before = switches.allow_tf32, switches.allow_bf16_reduced_precision_reduction
    _set(precision == "tf32", False)
    try:
        yield
    finally:
        _set(*before)


def _set(allow_tf32: bool, allow_reduced: bool) -> None:
    with warnings.catch_warnings():
        # Some releases announce a successor of allow_tf32, which others do not have yet.
        warnings.simplefilter("ignore", UserWarning)
        torch.backends.cuda.matmul.allow_tf32 = allow_tf32
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = allow_reduced
