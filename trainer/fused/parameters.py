"""FusedParameters: flat padded parameters, moments and gradients of all networks of a stack.

The networks' own layout stands in :mod:`trainer.fused.padded_block`. What leaves this class (checkpoints,
weights) is in the reference's layout, so that a file of one backend loads in the other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.config import AgentConfig
from trainer.fused.padded_block import PaddedBlock, q_block, value_block
from trainer.fused.shapes import FusedShapes
from trainer.layout import StateLayout
from trainer.networks import QNetwork, ValueNetwork
from trainer.parameter_block import ParameterBlock

CPU = torch.device("cpu")


class NetworkParameters:
    """Parameters of one network kind: N rows that learn and, behind or beside them, their slow copies.

    Attributes:
        block: Layout of a row.
        value: [N + T, P] float32, online rows first, then T target rows that follow the first T rows.
        first: [N, P] first moments.
        second: [N, P] second moments.
        gradient: [N, slices, P] float32; the batch is cut into slices whose gradients are added later.
        operand: [N + T, P], what matrix products read: ``value`` itself, or its bfloat16 copy.
        decays: [P / 4] uint8, see :meth:`PaddedBlock.decays`.
    """

    def __init__(
        self,
        block: PaddedBlock,
        reference: ParameterBlock,
        online: int,
        targets: int,
        slices: int,
        act_dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.block, self._reference = block, reference
        self.online, self.targets = online, targets

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, block.width, dtype=torch.float32, device=device)

        self.value = zeros(online + targets)
        self.first, self.second = zeros(online), zeros(online)
        self.gradient = zeros(online, slices)
        self.decays = block.decays(device)
        same = act_dtype == torch.float32
        self.operand = self.value if same else torch.zeros_like(self.value, dtype=act_dtype)

    def weights(self, name: str, rows: slice) -> Tensor:
        """Returns matrix ``name`` [n, rows, columns] of networks ``rows`` as products read it."""
        return self.block.matrix(name, self.operand[rows])

    def gradients(self, name: str) -> Tensor:
        """Returns where the gradient of matrix ``name`` goes, [N slices, rows, columns]."""
        return self.block.matrix(name, self.gradient.flatten(0, 1))

    def master(self, name: str, rows: slice) -> Tensor:
        """Returns the first row of matrix ``name`` in float32, [n, columns]."""
        return self.block.matrix(name, self.value[rows])[:, 0]

    def load(self, rows: slice, source: Tensor) -> None:
        """Sets networks ``rows`` from the reference's layout [n, P'], bfloat16 copy included."""
        self.block.pack(self._reference, source.to(self.value), self.value[rows])
        if self.operand is not self.value:
            self.operand[rows].copy_(self.value[rows])

    def load_moment(self, moment: Tensor, source: Tensor) -> None:
        """Sets ``first`` or ``second`` from the reference's layout [.., P']."""
        self.block.pack(self._reference, source.to(moment).flatten(0, -2), moment)

    def export(self, flat: Tensor) -> Tensor:
        """Returns a copy of rows of ``value``, ``first`` or ``second`` in the reference's layout."""
        return self.block.unpack(flat, self._reference)


def q_parameters(
    config: AgentConfig,
    layout: StateLayout,
    members: int,
    slices: int,
    act_dtype: torch.dtype,
    device: torch.device,
) -> NetworkParameters:
    """Returns the Q networks of M members; without IQL with as many target networks."""
    block = q_block(FusedShapes.of(config, layout))
    targets = 0 if config.use_iql else members
    reference = QNetwork(config, layout, 1, torch.float32, CPU).block
    return NetworkParameters(block, reference, members, targets, slices, act_dtype, device)


def value_parameters(
    config: AgentConfig,
    layout: StateLayout,
    members: int,
    slices: int,
    act_dtype: torch.dtype,
    device: torch.device,
) -> NetworkParameters:
    """Returns V_high of M members, V_low of M members and the M slow copies of V_high, in this order."""
    block = value_block(FusedShapes.of(config, layout))
    reference = ValueNetwork(config, layout, 1, torch.float32, CPU).block
    return NetworkParameters(block, reference, 2 * members, members, slices, act_dtype, device)


def initialise(
    config: AgentConfig,
    layout: StateLayout,
    keys: Tensor,
    q: NetworkParameters,
    value: NetworkParameters | None,
) -> None:
    """Draws the same initial values as the reference's agent, targets equal to what they follow.

    Args:
        config: Shape keys.
        layout: State columns and branches.
        keys: [M, 2] int64, (seed, fold).
        q: To fill.
        value: To fill; None without IQL.
    """
    members, device = len(keys), keys.device
    network = QNetwork(config, layout, members, torch.float32, device).block
    number = network.initialise(slice(None), keys, 0)
    q.load(slice(0, members), network.value)
    if value is None:
        q.load(slice(members, None), network.value)
        return
    stack = ValueNetwork(config, layout, 2 * members, torch.float32, device).block
    number = stack.initialise(slice(0, members), keys, number)
    stack.initialise(slice(members, None), keys, number)
    value.load(slice(0, 2 * members), stack.value)
    value.load(slice(2 * members, None), stack.value[:members])
