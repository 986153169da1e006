"""Peer: the whole IQL, HER and C51 step as a good user of PyTorch writes it, compiled and in one CUDA graph.

``python -m trainer.benchmarks.peer_torch`` prints one JSON line per shape. Set DOUBLE_DQN=1 to keep the two
Double DQN passes on s', which the IQL target does not need.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable

import torch
import torch.nn.functional as functional
from torch import Tensor

from trainer.benchmarks import step_shapes as shapes
from trainer.benchmarks.timing import microseconds

DEVICE = "cuda"
DOUBLE_DQN = os.environ.get("DOUBLE_DQN", "0") == "1"
DELTA_Z = (shapes.V_MAX - shapes.V_MIN) / (shapes.NUM_ATOMS - 1)
HEADS = len(shapes.ACTIONS_PER_BRANCH) + 1
Parameters = dict[str, Tensor]


def _linear(members: int, inputs: int, outputs: int) -> tuple[Tensor, Tensor]:
    weight = torch.randn(members, inputs, outputs, device=DEVICE) / math.sqrt(inputs)
    return weight, torch.zeros(members, 1, outputs, device=DEVICE)


def _network(members: int, layers: dict[str, tuple[int, int]]) -> Parameters:
    parameters: Parameters = {}
    for name, (inputs, outputs) in layers.items():
        parameters[f"{name}.w"], parameters[f"{name}.b"] = _linear(members, inputs, outputs)
    return parameters


def _q_layers() -> dict[str, tuple[int, int]]:
    width, head = shapes.TRUNK_WIDTH, shapes.HEAD_WIDTH
    layers = {"1": (shapes.STATE_DIM, width), "2": (width, width), "heads": (width, HEADS * head)}
    layers["value"] = (head, shapes.NUM_ATOMS)
    for branch, actions in enumerate(shapes.ACTIONS_PER_BRANCH):
        layers[f"branch{branch}"] = (head, actions * shapes.NUM_ATOMS)
    return layers


def _value_layers() -> dict[str, tuple[int, int]]:
    width = shapes.TRUNK_WIDTH
    return {"1": (shapes.STATE_DIM, width), "2": (width, width), "3": (width, 1)}


def _affine(parameters: Parameters, name: str, x: Tensor) -> Tensor:
    return torch.baddbmm(parameters[f"{name}.b"], x, parameters[f"{name}.w"])


def q_logits(parameters: Parameters, state: Tensor) -> list[Tensor]:
    """Logits [M, B, n_k, Z] of every branch."""
    x = functional.relu(_affine(parameters, "1", state))
    x = functional.relu(_affine(parameters, "2", x))
    hidden = functional.relu(_affine(parameters, "heads", x)).split(shapes.HEAD_WIDTH, -1)
    value = _affine(parameters, "value", hidden[0])[:, :, None]
    logits = []
    for branch, actions in enumerate(shapes.ACTIONS_PER_BRANCH):
        advantage = _affine(parameters, f"branch{branch}", hidden[branch + 1])
        advantage = advantage.unflatten(-1, (actions, shapes.NUM_ATOMS))
        logits.append(value + advantage - advantage.mean(2, keepdim=True))
    return logits


def values(parameters: Parameters, state: Tensor) -> Tensor:
    """V(s) [M, B]."""
    x = functional.relu(_affine(parameters, "1", state))
    x = functional.relu(_affine(parameters, "2", x))
    return _affine(parameters, "3", x)[..., 0]


class PeerStep:
    """Everything one step needs, allocated once."""

    def __init__(self, shape: shapes.Shape) -> None:
        members, capacity = shape.members, shape.capacity
        self.shape = shape
        self.relabelled = int(shape.batch_size * shapes.HER_RATIO)
        self.q, self.high, self.low = (
            _network(members, _q_layers()),
            _network(members, _value_layers()),
            _network(members, _value_layers()),
        )
        self.q_target = {name: tensor.clone() for name, tensor in self.q.items()}
        self.high_target = {name: tensor.clone() for name, tensor in self.high.items()}
        self.parameters = [
            tensor.requires_grad_() for each in (self.q, self.high, self.low) for tensor in each.values()
        ]
        rows = (members, capacity)
        self.state = torch.randn(*rows, shapes.STATE_DIM, device=DEVICE)
        self.next_state = torch.randn(*rows, shapes.STATE_DIM, device=DEVICE)
        self.action = torch.randint(0, 3, (*rows, HEADS - 1), device=DEVICE)
        self.reward = torch.randn(rows, device=DEVICE) * 0.1
        self.terminated = (torch.rand(rows, device=DEVICE) < 0.01).float()
        self.priority = torch.rand(rows, device=DEVICE) + 0.1
        slot = torch.arange(capacity, device=DEVICE)
        self.last = ((slot // shapes.EPISODE + 1) * shapes.EPISODE - 1).expand(rows)
        self.member = torch.arange(members, device=DEVICE)[:, None]
        self.atoms = torch.linspace(shapes.V_MIN, shapes.V_MAX, shapes.NUM_ATOMS, device=DEVICE)
        self.optimiser = torch.optim.Adam(self.parameters, lr=3e-4, fused=True, capturable=True)
        self.loss = torch.compile(self._loss)

    def step(self) -> None:
        """Sample, relabel, learn, write priorities."""
        index, batch = self._sample()
        loss, error = self.loss(*batch)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 10.0 * self.shape.members, foreach=True)
        self.optimiser.step()
        with torch.no_grad():
            for target, online in ((self.q_target, self.q), (self.high_target, self.high)):
                torch._foreach_lerp_(
                    list(target.values()), [each.detach() for each in online.values()], 0.005
                )
            fresh = slice(self.relabelled, None)
            self.priority.scatter_(1, index[:, fresh], (error[:, fresh].abs() + 1e-6).pow(0.6))

    def _sample(self) -> tuple[Tensor, tuple[Tensor, ...]]:
        members, size = self.shape.members, self.shape.batch_size
        sums = self.priority.cumsum(1)
        total = sums[:, -1:]
        stratum = torch.arange(size, device=DEVICE)
        draws = (stratum + torch.rand(members, size, device=DEVICE)) / size * total
        index = torch.searchsorted(sums, draws).clamp_(max=self.shape.capacity - 1)
        weight = (self.shape.capacity * self.priority.gather(1, index) / total).pow(-0.4)
        weight = weight / weight.amax(1, keepdim=True)
        sources = (self.state, self.next_state, self.action, self.reward, self.terminated)
        state, following, action, reward, terminated = (each[self.member, index] for each in sources)
        count = self.relabelled
        source = index[:, :count]
        room = self.last.gather(1, source) - source
        donor = source + (room * torch.rand(members, count, device=DEVICE)).long()
        goal = self.next_state[self.member, donor][..., :1]
        achieved = following[:, :count, :1]

        def relabelled(rows: Tensor) -> Tensor:
            changed = torch.cat([goal, rows[:, :count, 1:]], -1)
            return torch.cat([changed, rows[:, count:]], 1)

        hit = torch.where((achieved - goal).norm(dim=-1) < 0.01, 1.0, -0.01)
        state, following = relabelled(state), relabelled(following)
        reward = torch.cat([hit, reward[:, count:]], 1)
        weight = torch.cat([torch.ones_like(weight[:, :count]), weight[:, count:]], 1)
        return index, (state, following, action, reward, terminated, weight)

    def _loss(
        self,
        state: Tensor,
        following: Tensor,
        action: Tensor,
        reward: Tensor,
        terminated: Tensor,
        weight: Tensor,
    ) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            place = reward + shapes.GAMMA * (1 - terminated) * values(self.high_target, following)
            place = (place.clamp(shapes.V_MIN, shapes.V_MAX) - shapes.V_MIN) / DELTA_Z
            atom = torch.arange(shapes.NUM_ATOMS, device=DEVICE)
            target = (1 - (place[..., None] - atom).abs()).clamp_(min=0)
            extra = self._double_dqn(following) if DOUBLE_DQN else 0.0
        entropy = quality = torch.zeros_like(reward)
        for branch, logits in enumerate(q_logits(self.q, state)):
            chosen = action[:, :, branch, None, None].expand(-1, -1, 1, shapes.NUM_ATOMS)
            log_probs = functional.log_softmax(logits.gather(2, chosen)[:, :, 0], -1)
            entropy = entropy - (target * log_probs).sum(-1)
            quality = quality + (log_probs.detach().exp() * self.atoms).sum(-1)
        entropy, quality = entropy / (HEADS - 1), quality / (HEADS - 1)
        loss = (weight * entropy).mean(1).sum()
        for parameters, tau in ((self.high, 0.7), (self.low, 0.3)):
            gap = quality - values(parameters, state)
            loss = loss + (torch.where(gap >= 0, tau, 1 - tau) * gap * gap).mean(1).sum()
        return loss + 0.0 * extra, entropy.detach()

    def _double_dqn(self, following: Tensor) -> Tensor:
        total = torch.zeros((), device=DEVICE)
        for online, target in zip(
            q_logits(self.q, following), q_logits(self.q_target, following), strict=True
        ):
            expected = [(functional.softmax(each, -1) * self.atoms).sum(-1) for each in (online, target)]
            best = expected[0].argmax(-1, keepdim=True)
            total = total + expected[1].gather(-1, best).sum()
        return total


def captured(step: Callable[[], None], optimiser: torch.optim.Optimizer) -> Callable[[], None]:
    """Captures ``step`` into a CUDA graph and returns its replay."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(side)
    optimiser.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main() -> None:
    """Prints one JSON line per shape."""
    torch.set_float32_matmul_precision("high")
    torch._dynamo.config.cache_size_limit = 64
    for shape in shapes.SHAPES:
        peer = PeerStep(shape)
        time = microseconds(captured(peer.step, peer.optimiser))
        row = {"peer": "torch", "members": shape.members, "batch": shape.batch_size}
        print(json.dumps({**row, "double_dqn": DOUBLE_DQN, "us": round(time, 1)}), flush=True)
        del peer
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
