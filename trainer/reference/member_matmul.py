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


class AffineStack:
    """One affine layer of N networks, with its per-network views made once.

    Args:
        weight: [N, I, O], or with groups [N, I / groups, O].
        bias: [N, O].
        weight_gradient: Same shape as ``weight``; the backward pass overwrites it.
        bias_gradient: Same shape as ``bias``; likewise.
        groups: Disjoint column ranges (of x, of y): independent layers that share one weight tensor.
            Together they cover all columns. None: one group, an ordinary layer.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        weight_gradient: Tensor,
        bias_gradient: Tensor,
        groups: tuple[Group, ...] | None = None,
    ) -> None:
        # Leaves of autograd that share memory with the caller's tensors.
        self.weight = weight.detach().requires_grad_()
        self.bias = bias.detach().requires_grad_()
        self.weight_gradient, self.bias_gradient = weight_gradient, bias_gradient
        whole = slice(None)
        self.groups = groups or ((whole, whole),)
        self.networks, _, self.outputs = weight.shape
        self._bias_gradients = bias_gradient.unbind()
        blocks: list[list[tuple[slice, slice, Tensor, Tensor, Tensor]]] = []
        for n in range(self.networks):
            row = []
            for reads, writes in self.groups:
                tensors = weight.detach()[n], bias.detach()[n], weight_gradient[n]
                row.append((reads, writes, *(tensor[..., writes] for tensor in tensors)))
            blocks.append(row)  # type: ignore[arg-type]
        self._blocks = blocks

    def forward(self, x: Tensor, networks: int) -> Tensor:
        """Returns y [networks, B, O]; network n reads ``x[n mod len(x)]``."""
        y = x.new_empty((networks, x.shape[1], self.outputs))
        inputs = x.unbind() * (networks // len(x))
        for x_n, y_n, blocks in zip(inputs, y.unbind(), self._blocks, strict=False):
            if len(blocks) == 1:
                _, _, weight, bias, _ = blocks[0]
                torch.addmm(bias, x_n, weight, out=y_n)
                continue
            for reads, writes, weight, bias, _ in blocks:
                torch.addmm(bias, x_n[:, reads], weight, out=y_n[:, writes])
        return y

    def backward(self, x: Tensor, dy: Tensor, with_input: bool) -> Tensor | None:
        """Overwrites the gradients; returns d loss / d x, or None where it is not asked for."""
        dx = torch.empty_like(x) if with_input else None
        inputs = x.unbind() * (len(dy) // len(x))
        for n, (x_n, dy_n) in enumerate(zip(inputs, dy.unbind(), strict=True)):
            torch.sum(dy_n, 0, out=self._bias_gradients[n])
            for reads, writes, weight, _, weight_gradient in self._blocks[n]:
                dy_group = dy_n[:, writes]
                torch.mm(x_n[:, reads].t(), dy_group, out=weight_gradient)
                if dx is not None:
                    torch.mm(dy_group, weight.t(), out=dx[n, :, reads])
        return dx


class _MemberMatmul(torch.autograd.Function):
    """Lets autograd chain the layers, while each layer's products run per network."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, layer: AffineStack, networks: int
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.layer = layer
        return layer.forward(x, networks)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None, None]:
        x, _ = ctx.saved_tensors  # reading them checks that no weight changed since the forward pass
        layer = ctx.layer
        dx = layer.backward(x, dy.contiguous(), ctx.needs_input_grad[0])
        return dx, layer.weight_gradient, layer.bias_gradient, None, None


def member_matmul(x: Tensor, layer: AffineStack, networks: int | None = None) -> Tensor:
    """Applies the affine layer of the first ``networks`` networks of a stack.

    Args:
        x: [M, B, I] inputs.
        layer: N networks.
        networks: How many of them, a multiple of M; network n reads ``x[n mod M]``. Default: M.
            The backward pass needs all N, and ``x`` a constant where M < N.

    Returns:
        [networks, B, O], differentiable once in ``x``, ``layer.weight`` and ``layer.bias``.
    """
    count = networks or len(x)
    y: Tensor = _MemberMatmul.apply(x, layer.weight, layer.bias, layer, count)  # type: ignore[no-untyped-call]
    return y
