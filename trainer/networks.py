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
from trainer.reference.member_matmul import Group, member_matmul


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
        self._trunk_depth = len(config.trunk_widths)
        self._groups = head_groups(config.head_width, config.num_atoms, layout.actions_per_branch)
        specs = (
            *_affine_stack("trunk", trunk),
            *_affine("head.hidden", trunk[-1], heads * config.head_width),
            *_affine("head.output", config.head_width, self._rows * config.num_atoms),
        )
        self.block = ParameterBlock(specs, members, dtype, device)
        self._leaves = self.block.leaves()

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
        _write_gradient(self.block, self._leaves, output, gradient)

    def _head(self, state: Tensor) -> Tensor:
        leaves = self._leaves
        x = _rectified_stack("trunk", self._trunk_depth, leaves, state)
        x = member_matmul(x, leaves["head.hidden.weight"], leaves["head.hidden.bias"]).relu_()
        x = member_matmul(x, leaves["head.output.weight"], leaves["head.output.bias"], self._groups)
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
        self._depth = len(config.trunk_widths)
        trunk = (layout.state_dim, *config.trunk_widths)
        specs = (*_affine_stack("trunk", trunk), *_affine("output", trunk[-1], 1))
        self.block = ParameterBlock(specs, networks, dtype, device)
        self._leaves = self.block.leaves()

    def values(self, state: Tensor) -> Tensor:
        """Returns V [N, B] of ``state`` [N, B, S]; ready for ``backward``."""
        with torch.enable_grad():
            return self._forward(self._leaves, state)

    @torch.no_grad()
    def detached_values(self, state: Tensor) -> Tensor:
        """Returns V [n, B] of the first n networks on ``state`` [n, B, S] as constants."""
        count = state.shape[0]
        return self._forward({name: leaf[:count] for name, leaf in self._leaves.items()}, state)

    def backward(self, output: Tensor, gradient: Tensor) -> None:
        """Writes d loss / d parameters into ``block.gradient``, given d loss / d ``output``."""
        _write_gradient(self.block, self._leaves, output, gradient)

    def _forward(self, leaves: dict[str, Tensor], state: Tensor) -> Tensor:
        x = _rectified_stack("trunk", self._depth, leaves, state)
        return member_matmul(x, leaves["output.weight"], leaves["output.bias"]).squeeze(2)


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


def _affine_stack(name: str, widths: tuple[int, ...]) -> tuple[ParameterSpec, ...]:
    specs: list[ParameterSpec] = []
    for layer, (inputs, outputs) in enumerate(pairwise(widths)):
        specs += _affine(f"{name}.{layer}", inputs, outputs)
    return tuple(specs)


def _rectified_stack(name: str, depth: int, leaves: dict[str, Tensor], x: Tensor) -> Tensor:
    for layer in range(depth):
        x = member_matmul(x, leaves[f"{name}.{layer}.weight"], leaves[f"{name}.{layer}.bias"]).relu_()
    return x


def _write_gradient(
    block: ParameterBlock, leaves: dict[str, Tensor], output: Tensor, gradient: Tensor
) -> None:
    gradients = torch.autograd.grad(output, list(leaves.values()), gradient)
    for name, of_leaf in zip(leaves, gradients, strict=True):
        block.view(name, block.gradient).copy_(of_leaf)
