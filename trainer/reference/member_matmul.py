"""member_matmul: the affine layers of all members, one matrix product per member.

    y[m] = x[m] W[m] + b[m],   dx[m] = dy[m] W[m]^T,   dW[m] = x[m]^T dy[m],   db[m] = sum_b dy[m, b]

A batched product picks its algorithm by the size of the stack, so that a member's numbers would depend
on its neighbours. One ``torch.mm`` per member sees the same shapes in a stack and alone, which makes
both bitwise equal on the CPU, and is no slower.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Group = tuple[slice, slice]  # columns of x that a group reads, columns of y that it writes


class _MemberMatmul(torch.autograd.Function):
    """The custom backward keeps the three products per member; autograd chains the layers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, groups: tuple[Group, ...]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.groups = groups
        y = x.new_empty((x.shape[0], x.shape[1], weight.shape[2]))
        for x_m, weight_m, bias_m, y_m in zip(
            x.unbind(), weight.unbind(), bias.unbind(), y.unbind(), strict=True
        ):
            if len(groups) == 1:
                torch.addmm(bias_m, x_m, weight_m, out=y_m)
                continue
            for reads, writes in groups:
                torch.addmm(bias_m[writes], x_m[:, reads], weight_m[:, writes], out=y_m[:, writes])
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        dy = dy.contiguous()
        dx = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        dweight = weight.new_empty(weight.shape)
        dbias = dy.new_empty((dy.shape[0], dy.shape[2]))
        for m, (x_m, weight_m, dy_m) in enumerate(zip(x.unbind(), weight.unbind(), dy.unbind(), strict=True)):
            torch.sum(dy_m, 0, out=dbias[m])
            for reads, writes in ctx.groups:
                torch.mm(x_m[:, reads].t(), dy_m[:, writes], out=dweight[m, :, writes])
                if dx is not None:
                    torch.mm(dy_m[:, writes], weight_m[:, writes].t(), out=dx[m, :, reads])
        return dx, dweight, dbias, None


def member_matmul(x: Tensor, weight: Tensor, bias: Tensor, groups: tuple[Group, ...] | None = None) -> Tensor:
    """Applies every member's affine layer.

    Args:
        x: [M, B, I] inputs.
        weight: [M, I, O]; with groups [M, I / groups, O].
        bias: [M, O].
        groups: Disjoint column ranges (of x, of y): independent layers that share one weight tensor.
            Together they cover all columns. None: one group, an ordinary layer.

    Returns:
        [M, B, O] outputs; differentiable once in ``x``, ``weight`` and ``bias``.
    """
    whole = (slice(0, x.shape[2]), slice(0, weight.shape[2]))
    y: Tensor = _MemberMatmul.apply(x, weight, bias, groups or (whole,))  # type: ignore[no-untyped-call]
    return y
