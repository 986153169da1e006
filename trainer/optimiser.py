"""Optimiser: norm, clipping and AdamW of one network kind, all members at once."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.hyperparameters import Hyperparameters
from trainer.parameter_block import ParameterBlock
from trainer.reference.adamw import AdamScalars, AdamState, adamw
from trainer.reference.gradient_clip import clip_factor, gradient_norm


class Optimiser:
    """Steps a block of N = networks x M rows, network-major, each row with its own norm.

    Attributes:
        block: What it steps.
        state: Moments and counters with rows [networks, M].
    """

    def __init__(self, block: ParameterBlock, hyper: Hyperparameters) -> None:
        self.block = block
        members = len(hyper.learning_rate)
        self._value = block.value.view(-1, members, block.value.shape[1])
        self._gradient = block.gradient.view_as(self._value)
        self._max_norm = hyper.max_norm
        self._scalars = AdamScalars(
            hyper.learning_rate, hyper.adam_beta1, hyper.adam_beta2, hyper.adam_eps, hyper.weight_decay
        )
        self.state = AdamState.zeros_like(self._value)

    def reset(self) -> None:
        """Forgets moments and counters, in place."""
        for tensor in self.state:
            tensor.zero_()

    def norms(self) -> Tensor:
        """Returns the norm [networks, M] of every network's gradient, before clipping."""
        return gradient_norm(self._gradient)

    def step(self, norms: Tensor, accept: Tensor) -> None:
        """Clips the gradient in place and applies it.

        Args:
            norms: [networks, M] of the gradient.
            accept: [M] bool; a refused member keeps weights, moments and step.
        """
        factor = torch.where(accept, clip_factor(norms, self._max_norm), 0.0)
        # 0 times NaN is NaN: a refused row is cleared before it is scaled
        gradient = self._gradient.masked_fill_(~accept[:, None], 0.0).mul_(factor[..., None])
        adamw(self._value, gradient, self.state, self._scalars, accept, self.block.decay_width)
