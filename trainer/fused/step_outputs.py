"""The tensors of a fused step as named outputs, in the order of its launches, for a post-mortem."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from trainer.fused.parameters import NetworkParameters
from trainer.fused.step_buffers import StepBuffers
from trainer.fused.workspaces import QSlopes, QWorkspace, VSlopes, VWorkspace
from trainer.kernels.c51_iql_step import RowTerms
from trainer.post_mortem import Output

VALUE_NETWORKS = ("V_high", "V_low", "V_target")
TERMS = ("critic loss", "value loss", "value gap", "clipped share")


def sampled(buffers: StepBuffers) -> Iterator[Output]:
    """Yields what the replay gave."""
    state, _, next_state = buffers.state
    yield Output("replay_sample state", state)
    yield Output("replay_sample next state", next_state)
    yield Output("replay_sample reward", buffers.reward)
    yield Output("replay_sample importance weight", buffers.importance_weight())


def q_layers(network: str, workspace: QWorkspace) -> Iterator[Output]:
    """Yields the forward pass of a Q network, called ``network``; its layers count from 1."""
    for layer, hidden in enumerate(workspace.hidden, 1):
        yield Output(f"{network} layer {layer}", hidden)
    yield Output(f"{network} heads' hidden layer", workspace.head)
    yield Output(f"{network} logits", workspace.logits)


def value_layers(workspace: VWorkspace, members: int) -> Iterator[Output]:
    """Yields the forward pass of V_high(s), V_low(s) and V_target(s'), layer by layer."""
    for layer, hidden in enumerate(workspace.hidden, 1):
        for name, part in zip(VALUE_NETWORKS, torch.split(hidden, members), strict=True):
            yield Output(f"{name} layer {layer}", part)


def losses(kernel: str, buffers: StepBuffers, terms: RowTerms, slopes: QSlopes) -> Iterator[Output]:
    """Yields what the kernel of the loss, called ``kernel``, wrote for the Q network."""
    yield Output(f"{kernel} TD error", buffers.td_error)
    for name, rows in zip(TERMS, terms.values, strict=True):
        yield Output(f"{kernel} {name}", rows)
    yield Output(f"{kernel} slopes of the logits", slopes.logits)


def value_gradients(network: NetworkParameters, slopes: VSlopes, members: int) -> Iterator[Output]:
    """Yields the backward pass of V_high and V_low, from the slopes that the kernel of the loss wrote."""
    rows = _Networks(network, VALUE_NETWORKS[:2], members)
    yield from rows.each("slopes of the output", slopes.output)
    yield from rows.each("slopes of the last hidden layer", slopes.hidden[-1])
    yield from rows.each("gradient of output", rows.gradient("output"))
    yield from _trunk(rows, slopes.hidden)


def q_gradients(network: NetworkParameters, slopes: QSlopes, members: int) -> Iterator[Output]:
    """Yields the backward pass of the Q network behind the slopes of its logits."""
    rows = _Networks(network, ("q network",), members)
    yield from rows.each("slopes of the heads' hidden layer", slopes.head)
    for name in ("head.output", "head.output.bias", "head.hidden"):
        yield from rows.each(f"gradient of {name}", rows.gradient(name))
    yield from rows.each("slopes of the last hidden layer", slopes.hidden[-1])
    yield from _trunk(rows, slopes.hidden)


class _Networks:
    """Networks of M members each, one behind the other in a tensor's first axis."""

    def __init__(self, network: NetworkParameters, names: tuple[str, ...], members: int) -> None:
        self._network, self._names, self._members = network, names, members

    def each(self, what: str, value: Tensor) -> Iterator[Output]:
        """Yields one output per network from ``value`` [networks M, ...]."""
        for name, part in zip(self._names, torch.split(value, self._members), strict=True):
            yield Output(f"{name} {what}", part)

    def gradient(self, matrix: str) -> Tensor:
        """Returns [networks M, slices, rows, columns]."""
        networks = len(self._names) * self._members
        gradients = self._network.gradients(matrix)
        return gradients.view(networks, -1, *gradients.shape[1:])


def _trunk(rows: _Networks, slopes: tuple[Tensor, ...]) -> Iterator[Output]:
    for layer in reversed(range(len(slopes))):
        yield from rows.each(f"gradient of trunk.{layer}", rows.gradient(f"trunk.{layer}"))
        if layer > 0:
            yield from rows.each(f"slopes of layer {layer}", slopes[layer - 1])
