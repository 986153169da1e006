"""What tests of CUDA kernels share: the device, guarded outputs, and rings full of odd cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from trainer.config import TrainerConfig
from trainer.hyperparameters import Hyperparameters
from trainer.layout import FeatureTable, StateLayout
from trainer.replay import ReplayBuffer
from trainer.transitions import Collection

CPU = torch.device("cpu")
GUARD_BYTES = 256
GUARD_WORD = 0xA5
UNWRITTEN = 0xFF  # NaN in every floating type


@pytest.fixture
def cuda() -> torch.device:
    """The CUDA device of tests marked gpu."""
    return torch.device("cuda", torch.cuda.current_device())


class Guards:
    """Hands out output tensors of NaN between guard words, and checks the guard words afterwards."""

    def __init__(self) -> None:
        self._storages: list[Tensor] = []

    def like(self, tensor: Tensor) -> Tensor:
        """Returns a contiguous tensor of the same shape and type, every byte 0xFF."""
        count = tensor.numel() * tensor.element_size()
        storage = torch.full((count + 2 * GUARD_BYTES,), GUARD_WORD, dtype=torch.uint8, device=tensor.device)
        self._storages.append(storage)
        inside = storage[GUARD_BYTES : GUARD_BYTES + count].fill_(UNWRITTEN)
        return inside.view(tensor.dtype).view(tensor.shape)

    def intact(self) -> bool:
        """True where no guard word has changed."""
        return all(
            bool((each[:GUARD_BYTES] == GUARD_WORD).all() and (each[-GUARD_BYTES:] == GUARD_WORD).all())
            for each in self._storages
        )


@pytest.fixture
def guards() -> Guards:
    """A fresh set of guarded tensors."""
    return Guards()


@dataclass(frozen=True)
class ReplayCase:
    """A replay on some device and all that a sample of it depends on."""

    replay: ReplayBuffer
    hyper: Hyperparameters
    table: FeatureTable | None
    keys: Tensor

    def on(self, device: torch.device) -> ReplayCase:
        """Returns a copy that lives on ``device``."""
        old = self.replay
        replay = ReplayBuffer(old.members, old.capacity, old.layout, old.dtype, device)
        replay.load_state_dict(old.state_dict())
        hyper = Hyperparameters(**{name: value.to(device) for name, value in vars(self.hyper).items()})
        table = self.table and FeatureTable(
            self.table.features.to(device), self.table.center.to(device), self.table.inverse_scale.to(device)
        )
        return ReplayCase(replay, hyper, table, self.keys.to(device))


def collection_of(layout: StateLayout, members: int, lanes: int, length: int, seed: int) -> Collection:
    """Random transitions, on the CPU; goals are zeros and ones, so that some are reached by chance."""
    generator = torch.Generator().manual_seed(seed)
    made = Collection.allocate(members, lanes, length, layout, torch.float32, CPU)
    width, offset = layout.goal_dim, layout.achieved_offset
    for prefix in (made.prefix, made.next_prefix):
        prefix.normal_(generator=generator)
        prefix[..., offset : offset + width].random_(0, 2, generator=generator)
    made.reward.normal_(generator=generator)
    made.row.random_(0, 40, generator=generator)
    for branch, actions in enumerate(layout.actions_per_branch):
        made.action[..., branch].random_(0, actions, generator=generator)
    cut = length // 2  # every lane holds two episodes, the first ends in a terminal state
    made.terminated[:, :, max(cut - 1, 0)] = cut > 0
    made.truncated[..., -1] = True
    made.episode_start[:, :, cut:] = cut
    made.episode_stop[:, :, :cut] = cut
    made.episode_stop[:, :, cut:] = length
    return made


def uneven_priorities(members: int, capacity: int, filled: int, seed: int) -> Tensor:
    """Priorities over seven orders of magnitude, a tenth of them 0; 0 beyond the filled slots."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.exp(3.0 * torch.randn(members, capacity, generator=generator)).clamp(max=255.0)
    q[torch.rand(members, capacity, generator=generator) < 0.1] = 0.0
    q[:, filled:] = 0.0
    return q


@pytest.fixture
def make_case() -> Callable[..., ReplayCase]:
    """Builds rings on the CPU: several collections of two-episode lanes, uneven priorities, any layout."""

    def build(
        layout: StateLayout,
        overrides: Sequence[dict[str, object]],
        capacity: int,
        collections: int,
        lanes: int = 3,
        length: int = 8,
        seed: int = 1,
    ) -> ReplayCase:
        members = len(overrides)
        configs = [TrainerConfig().with_overrides(each) for each in overrides]
        hyper = Hyperparameters.stack(configs, torch.float32, CPU)
        replay = ReplayBuffer(members, capacity, layout, torch.float32, CPU)
        for number in range(collections):
            replay.insert(collection_of(layout, members, lanes, length, seed + number), hyper)
        filled = min(capacity, collections * lanes * length)
        replay.priority.copy_(uneven_priorities(members, capacity, filled, seed))
        replay.recompute_mass()
        generator = torch.Generator().manual_seed(seed + 100)
        columns, table = layout.table_dim, None
        if columns > 0:
            table = FeatureTable(
                3.0 * torch.randn(41, columns, generator=generator),
                torch.randn(members, columns, generator=generator),
                torch.exp(torch.randn(members, columns, generator=generator)),
            )
        keys = torch.tensor([[7 + m // 2, m % 2] for m in range(members)])
        return ReplayCase(replay, hyper, table, keys)

    return build


@pytest.fixture
def make_collection() -> Callable[..., Collection]:
    """Builds ``collection_of`` the given layout and sizes."""
    return collection_of
