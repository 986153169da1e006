"""adamw: one step of Adam with decoupled weight decay on every row of a parameter block.

    w -= lr decay w                                   (weights only, before the step)
    m  = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
    w -= lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps)

Loshchilov & Hutter 2019, algorithm 2; eps stands outside the bias-corrected root. Every scalar is a
per-row device value, t included: a row that is not accepted keeps weights, moments and step.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class AdamState(NamedTuple):
    """Moments and step counters of networks, ``rows`` being [M] or [networks of a member, M]."""

    first_moment: Tensor  # [*rows, P]
    second_moment: Tensor  # [*rows, P]
    step: Tensor  # [*rows] int64, accepted steps so far

    @classmethod
    def zeros_like(cls, parameters: Tensor) -> AdamState:
        """The state before the first step on ``parameters`` [*rows, P]."""
        step = torch.zeros(parameters.shape[:-1], dtype=torch.int64, device=parameters.device)
        return cls(torch.zeros_like(parameters), torch.zeros_like(parameters), step)


class AdamScalars(NamedTuple):
    """Hyperparameters of M members, each [M]."""

    learning_rate: Tensor
    beta1: Tensor
    beta2: Tensor
    eps: Tensor
    weight_decay: Tensor


def adamw(
    parameters: Tensor,
    gradient: Tensor,
    state: AdamState,
    scalars: AdamScalars,
    accept: Tensor,
    decay_width: int,
) -> None:
    """Steps ``parameters`` and ``state`` in place.

    Args:
        parameters: [*rows, P], rows = [M] or [networks of a member, M].
        gradient: [*rows, P], clipped; its rows are zero where ``accept`` is false (no NaN may stand there).
        state: Moments and counters.
        scalars: Hyperparameters.
        accept: [M] bool; a refused member does not change.
        decay_width: The first so many columns are weights and decay; the others are biases.
    """
    first, second, step = state
    step += accept
    # A refused row runs the same arithmetic with factors that change nothing.
    beta1 = torch.where(accept, scalars.beta1, 1.0)
    beta2 = torch.where(accept, scalars.beta2, 1.0)
    rate = torch.where(accept, scalars.learning_rate / _bias_correction(scalars.beta1, step), 0.0)
    root_scale = torch.where(accept, _bias_correction(scalars.beta2, step).rsqrt(), 1.0)
    keep = torch.where(accept, 1.0 - scalars.learning_rate * scalars.weight_decay, 1.0)

    parameters[..., :decay_width].mul_(keep[..., None])
    first.mul_(beta1[..., None]).add_(gradient * (1.0 - beta1)[..., None])
    second.mul_(beta2[..., None]).add_((gradient * gradient).mul_((1.0 - beta2)[..., None]))
    denominator = second.sqrt().mul_(root_scale[..., None]).add_(scalars.eps[..., None])
    parameters.sub_(torch.div(first, denominator, out=denominator).mul_(rate[..., None]))


def _bias_correction(beta: Tensor, step: Tensor) -> Tensor:
    """1 - beta^t without the cancellation of the plain form, which costs float32 four digits."""
    exponent = step.double() * beta.double().log()
    return torch.expm1(exponent).neg_().to(beta.dtype)
