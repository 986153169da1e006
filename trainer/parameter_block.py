"""ParameterBlock: all parameters of one network kind as one flat row per network."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.reference.member_matmul import AffineStack, Group
from trainer.reference.philox import Purpose, draw, uniform

ALIGNMENT = 16  # elements; a tensor starts at the same offset of a 64-byte line in every row


@dataclass(frozen=True)
class ParameterSpec:
    """One tensor of a network.

    Attributes:
        name: Dotted name, unique in its network.
        shape: Shape without the member axis; a weight is [inputs, outputs].
        fan_in: Inputs of one output; bounds the initial values.
        decays: Weight decay applies (weights) or not (biases).
    """

    name: str
    shape: tuple[int, ...]
    fan_in: int
    decays: bool

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


class ParameterBlock:
    """A flat [N, P] tensor with named views; weights stand first, so that decay is one column range.

    Attributes:
        value: [N, P] parameters; changed in place only.
        gradient: [N, P] of the last backward pass; the gaps between tensors stay 0.
        decay_width: Columns below it are weights and decay; the others are biases.
    """

    def __init__(
        self, specs: tuple[ParameterSpec, ...], networks: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.specs = specs
        self._start: dict[str, int] = {}
        width = self._place([spec for spec in specs if spec.decays], 0)
        self.decay_width = width
        width = self._place([spec for spec in specs if not spec.decays], width)
        self.value = torch.zeros((networks, width), dtype=dtype, device=device)
        self.gradient = torch.zeros_like(self.value)

    def _place(self, specs: list[ParameterSpec], offset: int) -> int:
        for spec in specs:
            self._start[spec.name] = offset
            offset += math.ceil(spec.size / ALIGNMENT) * ALIGNMENT
        return offset

    def view(self, name: str, flat: Tensor | None = None) -> Tensor:
        """Returns tensor ``name`` as a view [N, *shape] into ``flat`` [N, P] (default: the values)."""
        flat = self.value if flat is None else flat
        spec = next(spec for spec in self.specs if spec.name == name)
        start = self._start[name]
        return flat[:, start : start + spec.size].view(-1, *spec.shape)

    def affine(self, name: str, groups: tuple[Group, ...] | None = None) -> AffineStack:
        """Returns the layer made of ``name.weight`` and ``name.bias``; its memory is this block's."""
        weight, bias = f"{name}.weight", f"{name}.bias"
        return AffineStack(
            self.view(weight),
            self.view(bias),
            self.view(weight, self.gradient),
            self.view(bias, self.gradient),
            groups,
        )

    def initialise(self, rows: slice, keys: Tensor, first_number: int) -> int:
        """Draws initial values uniform on +-1 / sqrt(fan_in).

        The draw depends on the key and the tensor's number alone, not on the stack. It is rounded to
        float32 first, so that trainings in float32 and in float64 start from the same values.

        Args:
            rows: The networks to fill, as many as ``keys`` has rows.
            keys: [M, 2] int64, (seed, fold).
            first_number: Number of the first tensor over all networks of an agent.

        Returns:
            The number after the last tensor.
        """
        device = self.value.device
        if device.type == "meta":  # shapes without values: nothing to draw
            return first_number + len(self.specs)
        self.value[rows].zero_()  # the gaps between tensors too
        for number, spec in enumerate(self.specs, first_number):
            lanes = torch.arange(math.ceil(spec.size / 4), device=device)
            words = draw(keys, Purpose.INITIAL_WEIGHT, torch.tensor(number, device=device), lanes)
            unit = uniform(words.flatten(1)[:, : spec.size], torch.float32) * 2.0 - 1.0
            bound = torch.tensor(1.0 / math.sqrt(spec.fan_in), dtype=torch.float32, device=device)
            self.view(spec.name)[rows] = (unit * bound).view(-1, *spec.shape).to(self.value.dtype)
        return first_number + len(self.specs)
