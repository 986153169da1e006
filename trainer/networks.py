"""The two network kinds: forward and backward of a whole stack behind one small interface.

Reference form: PyTorch with one matrix product per member. A fused form replaces these classes and
nothing else, because the agent only asks for outputs and hands back the gradient of an output.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from trainer.config import AgentConfig
from trainer.layout import StateLayout
from trainer.parameter_block import ParameterBlock, ParameterSpec
from trainer.reference.c51_support import expected_value
from trainer.reference.dueling_logits import branch_slices, chosen_logits, dueling_logits
from trainer.reference.member_matmul import AffineStack, Group, member_matmul


class QNetwork:
    """Branching dueling C51 (Tavakoli, Pardo & Kormushev 2018): S -> trunk -> value and branch heads.

    The hidden layers of all heads share one weight tensor (one product), and so do their output layers
    (one product per head, ``head_groups``).
    """

    def __init__(
        self, config: AgentConfig, layout: StateLayout, members: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.actions_per_branch = layout.actions_per_branch
        self._atoms = config.num_atoms
        self._rows = 1 + sum(layout.actions_per_branch)
        heads = 1 + layout.num_branches
        trunk = (layout.state_dim, *config.trunk_widths)
        specs = (
            *_trunk_specs(trunk),
            *_affine("head.hidden", trunk[-1], heads * config.head_width),
            *_affine("head.output", config.head_width, self._rows * config.num_atoms),
        )
        self.block = ParameterBlock(specs, members, dtype, device)
        self._trunk = _trunk_layers(self.block, len(config.trunk_widths))
        self._hidden = self.block.affine("head.hidden")
        groups = head_groups(config.head_width, config.num_atoms, layout.actions_per_branch)
        self._output = self.block.affine("head.output", groups)

    def chosen_logits(self, state: Tensor, action: Tensor) -> Tensor:
        """Returns logits [M, B, K, Z] of ``action`` [M, B, K]; ready for ``backward``."""
        with torch.enable_grad():
            return chosen_logits(self._head(state), action, self.actions_per_branch)

    @torch.no_grad()
    def target_logits(self, state: Tensor, action: Tensor) -> Tensor:
        """Returns logits [M, B, K, Z] of ``action`` [M, B, K] as constants."""
        return chosen_logits(self._head(state), action, self.actions_per_branch)

    @torch.no_grad()
    def expected(self, state: Tensor, atoms: Tensor) -> Tensor:
        """Returns E[Q_k(s, a)] [M, B, A] of every action on ``atoms`` [M, Z]."""
        logits = dueling_logits(self._head(state), self.actions_per_branch)
        return expected_value(torch.softmax(logits, -1), atoms)

    def backward(self, output: Tensor, gradient: Tensor) -> None:
        """Writes d loss / d parameters into ``block.gradient``, given d loss / d ``output``."""
        _backward((*self._trunk, self._hidden, self._output), output, gradient)

    def _head(self, state: Tensor) -> Tensor:
        x = _rectified(self._trunk, state, len(state))
        x = member_matmul(x, self._hidden).relu_()
        x = member_matmul(x, self._output)
        return x.view(*state.shape[:2], self._rows, self._atoms)


class ValueNetwork:
    """S -> trunk -> 1 for N = 2M networks: rows 0..M-1 are V_high, rows M..2M-1 are V_low.

    With ``networks = M`` it holds the slow copy of V_high.
    """

    def __init__(
        self,
        config: AgentConfig,
        layout: StateLayout,
        networks: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        trunk = (layout.state_dim, *config.trunk_widths)
        specs = (*_trunk_specs(trunk), *_affine("output", trunk[-1], 1))
        self.block = ParameterBlock(specs, networks, dtype, device)
        self._trunk = _trunk_layers(self.block, len(config.trunk_widths))
        self._output = self.block.affine("output")

    def values(self, state: Tensor) -> Tensor:
        """Returns V [N, B] of ``state`` [M, B, S], shared by V_high and V_low; ready for ``backward``."""
        with torch.enable_grad():
            return self._forward(state, len(self.block.value))

    @torch.no_grad()
    def detached_values(self, state: Tensor) -> Tensor:
        """Returns V_high [M, B] of ``state`` [M, B, S] as constants."""
        return self._forward(state, len(state))

    def backward(self, output: Tensor, gradient: Tensor) -> None:
        """Writes d loss / d parameters into ``block.gradient``, given d loss / d ``output``."""
        _backward((*self._trunk, self._output), output, gradient)

    def _forward(self, state: Tensor, networks: int) -> Tensor:
        x = _rectified(self._trunk, state, networks)
        return member_matmul(x, self._output, networks).squeeze(2)


def head_groups(head_width: int, num_atoms: int, actions_per_branch: tuple[int, ...]) -> tuple[Group, ...]:
    """Returns which hidden columns feed which output columns: the value head first, then the branches."""
    rows = (slice(0, 1), *(slice(1 + s.start, 1 + s.stop) for s in branch_slices(actions_per_branch)))
    return tuple(
        (
            slice(head * head_width, (head + 1) * head_width),
            slice(row.start * num_atoms, row.stop * num_atoms),
        )
        for head, row in enumerate(rows)
    )


def _affine(name: str, inputs: int, outputs: int) -> tuple[ParameterSpec, ParameterSpec]:
    return (
        ParameterSpec(f"{name}.weight", (inputs, outputs), inputs, decays=True),
        ParameterSpec(f"{name}.bias", (outputs,), inputs, decays=False),
    )


def _trunk_specs(widths: tuple[int, ...]) -> tuple[ParameterSpec, ...]:
    specs: list[ParameterSpec] = []
    for layer, (inputs, outputs) in enumerate(pairwise(widths)):
        specs += _affine(f"trunk.{layer}", inputs, outputs)
    return tuple(specs)


def _trunk_layers(block: ParameterBlock, depth: int) -> tuple[AffineStack, ...]:
    return tuple(block.affine(f"trunk.{layer}") for layer in range(depth))


def _rectified(layers: tuple[AffineStack, ...], x: Tensor, networks: int) -> Tensor:
    for layer in layers:
        x = member_matmul(x, layer, networks).relu_()
    return x


def _backward(layers: tuple[AffineStack, ...], output: Tensor, gradient: Tensor) -> None:
    leaves = [leaf for layer in layers for leaf in (layer.weight, layer.bias)]
    # The layers write into the block themselves; what autograd returns are views of it.
    torch.autograd.grad(output, leaves, gradient)
