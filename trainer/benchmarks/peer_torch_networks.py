"""BranchingQ: the networks of the plain PyTorch peer, as modules."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from trainer.config import TrainerConfig


class BranchingQ(nn.Module):
    """Dueling C51 logits of every branch."""

    def __init__(self, config: TrainerConfig, state_dim: int) -> None:
        super().__init__()
        agent, self.actions = config.agent, config.environment.actions_per_branch
        self.atoms = agent.num_atoms
        self.trunk = trunk(state_dim, agent.trunk_widths)
        heads = 1 + len(self.actions)
        self.hidden = nn.Linear(agent.trunk_widths[-1], heads * agent.head_width)
        self.outputs = nn.ModuleList(nn.Linear(agent.head_width, n * self.atoms) for n in (1, *self.actions))
        self.heads = heads

    def forward(self, state: Tensor) -> list[Tensor]:
        """[B, S] -> logits [B, n_k, Z] per branch."""
        hidden = functional.relu(self.hidden(self.trunk(state))).chunk(self.heads, -1)
        value, *advantages = (
            output(part).unflatten(-1, (-1, self.atoms))
            for output, part in zip(self.outputs, hidden, strict=True)
        )
        return [value + each - each.mean(1, keepdim=True) for each in advantages]


def trunk(inputs: int, widths: tuple[int, ...]) -> nn.Sequential:
    """Rectified layers."""
    layers: list[nn.Module] = []
    for before, width in zip((inputs, *widths), widths, strict=False):
        layers += [nn.Linear(before, width), nn.ReLU()]
    return nn.Sequential(*layers)
