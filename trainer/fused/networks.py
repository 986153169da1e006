"""FusedNetworks: forward and backward of all members' networks, one batched product per layer.

Nothing is allocated and nothing waits, so the calls can be captured. A bias is a row of its weight matrix
(:mod:`trainer.fused.shapes`): the forward product adds it, and the product of the weight gradient makes
its gradient.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from trainer.config import AgentConfig
from trainer.fused.parameters import NetworkParameters, initialise, q_parameters, value_parameters
from trainer.fused.shapes import FusedShapes
from trainer.fused.side_streams import SideStreams
from trainer.fused.workspaces import QSlopes, QWorkspace, VSlopes, VWorkspace
from trainer.kernels.relu import relu
from trainer.kernels.relu_mask import relu_mask
from trainer.layout import StateLayout

HEAD_STREAMS = (0, 1, 2)
SLOPE_STREAM = 3  # weight gradients of the Q network, next to the chain of activations' gradients
VALUE_STREAM = 4
STREAMS = 5
SLICED_ROWS = 4096  # batches from here on are cut
MIN_SLICE = 1024
MAX_SLICES = 16  # of all members together


def slices_of(members: int, batch: int) -> int:
    """Returns in how many slices the products of weight gradients cut the batch.

    A weight gradient sums over the batch: for few members it is a small matrix with a long sum, and only
    slices give every processor a share. The number divides the batch.
    """
    if batch < SLICED_ROWS:
        return 1
    slices = 1
    while (
        slices * 2 * members <= MAX_SLICES
        and batch % (slices * 2) == 0
        and batch // (slices * 2) >= MIN_SLICE
    ):
        slices *= 2
    return slices


def product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Writes the batched product into ``out``; operands may be bfloat16 and ``out`` float32."""
    if out.dtype == left.dtype:
        torch.bmm(left, right, out=out)
    else:
        torch.bmm(left, right, out_dtype=out.dtype, out=out)


class FusedNetworks:
    """Q and value networks of M members with their parameters.

    Attributes:
        shapes: Padded widths.
        q: Parameters of Q; with Double DQN M target networks follow the M online ones.
        value: Parameters of V_high, V_low and V_target, M each; None without IQL.
        output_bias: [M, LW] float32 view, bias of the output layer of Q; row pitch is ``q.block.width``.
        value_output: [3M, Hp] float32 view, last layer of the value networks, element Hn its bias.
    """

    def __init__(
        self,
        config: AgentConfig,
        layout: StateLayout,
        keys: Tensor,
        act_dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        members = self._members = len(keys)
        self.shapes = FusedShapes.of(config, layout)
        self.slices = slices_of(members, config.batch_size)
        stack = config, layout, members, self.slices, act_dtype, device
        self.q = q_parameters(*stack)
        self.value = value_parameters(*stack) if config.use_iql else None
        self._config, self._layout = config, layout
        self.initialise(keys.to(device))
        self._online, self._target = slice(0, members), slice(members, 2 * members)
        self.output_bias = self.q.master("head.output.bias", self._online)
        if self.value is not None:
            self.value_output = self.value.master("output", slice(None))
        else:
            self.target_output_bias = self.q.master("head.output.bias", self._target)
        self.streams = SideStreams(STREAMS, device)

    def initialise(self, keys: Tensor) -> None:
        """Draws the initial weights of members with ``keys`` [M, 2] int64 on the device, in place."""
        initialise(self._config, self._layout, keys, self.q, self.value)

    def q_forward(self, x: Tensor, workspace: QWorkspace, *, target: bool = False) -> None:
        """Fills ``workspace`` from states.

        Args:
            x: [M, R, Sp] act dtype, column S is 1.
            workspace: Of R rows.
            target: The slow copy instead of the online network (Double DQN alone).
        """
        shapes, rows = self.shapes, self._target if target else self._online
        x = self._trunk_forward(self.q, rows, x, workspace.hidden)
        width = shapes.heads * shapes.head_columns
        product(x, self.q.weights("head.hidden", rows), workspace.head[..., :width])
        relu(workspace.head, width)
        weight = self.q.weights("head.output", rows)
        for head in range(shapes.heads):
            hidden, logits = shapes.hidden_columns_of(head), shapes.logit_columns_of(head)
            with self.streams.fork(HEAD_STREAMS[head % len(HEAD_STREAMS)]):
                product(workspace.head[..., hidden], weight[..., logits], workspace.logits[..., logits])
        self.streams.join(*HEAD_STREAMS)

    def v_forward(self, x: Tensor, workspace: VWorkspace, which: Literal["all", "high"] = "all") -> None:
        """Fills the hidden layers of the value networks; the last layer is left to the caller's kernel.

        Args:
            x: [3M, R, Sp] for ``all`` (V_high, V_low, V_target), [M, R, Sp] for ``high``.
            workspace: Of as many networks and R rows.
            which: The networks.
        """
        value = self._value_parameters()
        self._trunk_forward(value, slice(0, self._members if which == "high" else None), x, workspace.hidden)

    def q_backward(self, x: Tensor, workspace: QWorkspace, slopes: QSlopes) -> None:
        """Fills ``q.gradient`` from ``slopes.logits``; x and workspace are those of the forward pass."""
        shapes, members = self.shapes, self._online
        width = shapes.heads * shapes.head_columns
        weight = self.q.weights("head.output", members)
        gradient = self.q.gradients("head.output")
        for head in range(shapes.heads):
            hidden, logits = shapes.hidden_columns_of(head), shapes.logit_columns_of(head)
            with self.streams.fork(HEAD_STREAMS[head % len(HEAD_STREAMS)]):
                slope = slopes.logits[..., logits]
                product(slope, weight[..., logits].mT, slopes.head[..., hidden])
        self.streams.join(*HEAD_STREAMS)
        for head in range(shapes.heads):
            hidden, logits = shapes.hidden_columns_of(head), shapes.logit_columns_of(head)
            with self.streams.fork(HEAD_STREAMS[head % len(HEAD_STREAMS)]):
                self._gradient(workspace.head[..., hidden], slopes.logits[..., logits], gradient[..., logits])
        with self.streams.fork(SLOPE_STREAM):
            self._gradient(workspace.head[..., width:], slopes.logits, self.q.gradients("head.output.bias"))
        relu_mask(slopes.head, workspace.head)
        with self.streams.fork(SLOPE_STREAM):
            self._gradient(workspace.hidden[-1], slopes.head, self.q.gradients("head.hidden"))
        last = shapes.trunk_columns[-1]
        hidden_weight = self.q.weights("head.hidden", members)[:, :last]
        product(slopes.head, hidden_weight.mT, slopes.hidden[-1])
        relu_mask(slopes.hidden[-1], workspace.hidden[-1])
        self._trunk_backward(self.q, x, workspace.hidden, slopes.hidden, SLOPE_STREAM)
        self.streams.join(*HEAD_STREAMS, SLOPE_STREAM)

    def v_backward(self, x: Tensor, workspace: VWorkspace, slopes: VSlopes) -> None:
        """Fills ``value.gradient`` from ``slopes.output`` and the last of ``slopes.hidden``.

        Args:
            x: [2M, B, Sp], the states once for V_high and once for V_low.
            workspace: Of the forward pass over all 3M networks.
            slopes: Of 2M networks.
        """
        value, learn = self._value_parameters(), 2 * self._members
        hidden = tuple(layer[:learn] for layer in workspace.hidden)
        self._gradient(slopes.output, hidden[-1], value.gradients("output"))
        self._trunk_backward(value, x, hidden, slopes.hidden, None)

    def _value_parameters(self) -> NetworkParameters:
        if self.value is None:
            raise ValueError("value networks exist only where agent.use_iql is true")
        return self.value

    def _trunk_forward(
        self, network: NetworkParameters, rows: slice, x: Tensor, hidden: tuple[Tensor, ...]
    ) -> Tensor:
        for layer, (out, columns) in enumerate(zip(hidden, self.shapes.trunk_columns, strict=True)):
            product(x, network.weights(f"trunk.{layer}", rows), out[..., :columns])
            relu(out, columns)
            x = out
        return x

    def _trunk_backward(
        self,
        network: NetworkParameters,
        x: Tensor,
        hidden: tuple[Tensor, ...],
        slopes: tuple[Tensor, ...],
        stream: int | None,
    ) -> None:
        """From the gradient before the last rectifier to all gradients of the trunk."""
        for layer in reversed(range(len(hidden))):
            inputs = x if layer == 0 else hidden[layer - 1]
            gradient = network.gradients(f"trunk.{layer}")
            if stream is None or layer == 0:
                self._gradient(inputs, slopes[layer], gradient)
            else:
                with self.streams.fork(stream):
                    self._gradient(inputs, slopes[layer], gradient)
            if layer > 0:
                columns = self.shapes.trunk_columns[layer - 1]
                weight = network.weights(f"trunk.{layer}", slice(0, network.online))[:, :columns]
                product(slopes[layer], weight.mT, slopes[layer - 1])
                relu_mask(slopes[layer - 1], hidden[layer - 1])

    def _gradient(self, inputs: Tensor, slope: Tensor, out: Tensor) -> None:
        """out[n, s] = inputs[n, slice s]^T slope[n, slice s], with ``out`` [N slices, I, O]."""
        product(self._sliced(inputs).mT, self._sliced(slope), out)

    def _sliced(self, rows: Tensor) -> Tensor:
        """[N, B, C] -> [N slices, B / slices, C], a view."""
        networks, batch, columns = rows.shape
        return rows.view(networks, self.slices, batch // self.slices, columns).flatten(0, 1)
