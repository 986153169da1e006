"""ReplayBuffer: one prioritised ring of transitions per member, all rings turning together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from trainer.errors import CheckpointError, ConfigError
from trainer.hyperparameters import Hyperparameters
from trainer.layout import FeatureTable, StateLayout, assemble
from trainer.reference.donor_select import RingRows
from trainer.reference.importance_weight import annealed_beta, importance_weight
from trainer.reference.prioritised_sample import mass_of, prioritised_sample
from trainer.reference.priority_write import priority_of, priority_write, written_rows
from trainer.transitions import Batch, Collection

FIRST_ERROR = 1.0  # the running maximum of |delta| before any is known


@dataclass(frozen=True)
class Sample:
    """Slots drawn by priority, and the weights that correct for it."""

    index: Tensor  # [M, B] int64
    weight: Tensor  # [M, B] float, maximum 1 per member


class Rings(NamedTuple):
    """The stored columns themselves, for code that reads or writes all of them: [M, C, ...]."""

    prefix: Tensor  # [M, C, P] float
    next_prefix: Tensor  # [M, C, P] float
    row: Tensor  # [M, C] int32
    action: Tensor  # [M, C, K] uint8
    reward: Tensor  # [M, C] float
    terminated: Tensor  # [M, C] bool
    truncated: Tensor  # [M, C] bool
    episode_start: Tensor  # [M, C] int64, write position
    episode_stop: Tensor  # [M, C] int64, write position, exclusive
    priority: Tensor  # [M, C] float32


class ReplayBuffer:
    """Prioritised replay (Schaul et al. 2016) over M rings of C slots, buffers allocated once.

    Every member writes the same number of items, so one cursor serves all. Episode bounds are write
    positions counted since the start, never reduced modulo C: an episode is still whole exactly where
    its start is among the last C writes. The device reads only device memory while it inserts,
    samples, gathers and writes priorities.

    Args:
        members: M.
        capacity: C, items per member.
        layout: Which columns of a state are stored.
        dtype: Of states, rewards and weights.
        device: Where the rings live.
    """

    def __init__(
        self,
        members: int,
        capacity: int,
        layout: StateLayout,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        def ring(*tail: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros((members, capacity, *tail), dtype=dtype, device=device)

        self.members = members
        self.capacity = capacity
        self.layout = layout
        self.dtype = dtype
        self.rings = Rings(
            prefix=ring(layout.prefix_dim, dtype=dtype),
            next_prefix=ring(layout.prefix_dim, dtype=dtype),
            row=ring(dtype=torch.int32),
            action=ring(layout.num_branches, dtype=torch.uint8),
            reward=ring(dtype=dtype),
            terminated=ring(dtype=torch.bool),
            truncated=ring(dtype=torch.bool),
            episode_start=ring(dtype=torch.int64),
            episode_stop=ring(dtype=torch.int64),
            priority=ring(dtype=torch.float32),
        )
        self._stored: dict[str, Tensor] = self.rings._asdict()
        self.mass = ring(dtype=torch.int64)  # rint(priority 2^32), kept so that sampling only adds
        self.largest_error = torch.full((members,), FIRST_ERROR, dtype=torch.float32, device=device)
        self.written = torch.zeros((), dtype=torch.int64, device=device)
        self._member_base = torch.arange(members, dtype=torch.int64, device=device)[:, None] * capacity
        self._inserted = 0  # `written` as the host knows it from its own calls

    @property
    def priority(self) -> Tensor:
        """[M, C] float32, q of every slot; 0 where nothing was stored yet."""
        return self.rings.priority

    def reset(self) -> None:
        """Empties the rings, in place: what a new buffer holds."""
        for stored in (*self.rings, self.mass, self.written):
            stored.zero_()
        self.largest_error.fill_(FIRST_ERROR)
        self._inserted = 0

    def require_items(self) -> None:
        """Refuses to sample from nothing.

        Raises:
            ValueError: If nothing was inserted yet.
        """
        if self._inserted == 0:
            raise ValueError("a sample needs at least one stored transition, but the replay is empty")

    def bytes_per_item(self) -> int:
        """Bytes of one stored transition: 2 P floats, a reward, K actions, bounds, priority and sums."""
        tensors = [*self._stored.values(), self.mass]
        return sum(tensor.nbytes for tensor in tensors) // (self.members * self.capacity)

    def insert(self, collection: Collection, hyper: Hyperparameters) -> None:
        """Appends a whole collection lane by lane, with the priority of the largest |delta| seen so far.

        Raises:
            ConfigError: If E L > C, where lanes of one collection would overwrite each other.
        """
        lanes, length = collection.row.shape[1:]
        count = lanes * length
        if count > self.capacity:
            raise ConfigError(
                "replay.capacity",
                f"`episodes * episode_length <= capacity` must hold, but got {count} > {self.capacity}",
            )
        item = torch.arange(count, dtype=torch.int64, device=self.written.device)
        slots = torch.remainder(self.written + item, self.capacity)
        base = self.written + (item - item % length)  # write position of each item's lane
        fresh = priority_of(self.largest_error[:, None], hyper.per_alpha).expand(-1, count)
        values = {
            "prefix": collection.prefix,
            "next_prefix": collection.next_prefix,
            "row": collection.row,
            "action": collection.action,
            "reward": collection.reward,
            "terminated": collection.terminated,
            "truncated": collection.truncated,
            "episode_start": base + collection.episode_start.flatten(1, 2),
            "episode_stop": base + collection.episode_stop.flatten(1, 2),
            "priority": fresh,
        }
        for name, value in values.items():
            stored = self._stored[name]
            stored.index_copy_(1, slots, value.reshape(self.members, count, *stored.shape[2:]))
        self.mass.index_copy_(1, slots, mass_of(fresh))
        self.advance(count)

    def advance(self, count: int) -> None:
        """Moves the write cursor past ``count`` items that stand in the ring already."""
        self.written += count
        self._inserted += count

    def recompute_mass(self) -> None:
        """Makes ``mass`` follow ``priority`` again, after code that writes priorities alone."""
        self.mass.copy_(mass_of(self.priority))

    def sample(self, batch_size: int, step: Tensor, keys: Tensor, hyper: Hyperparameters) -> Sample:
        """Draws B slots per member, one per stratum of the priorities' sum.

        P of the importance weights is integer priority over integer total, the probability that the
        draw really had; beta rises linearly from per_beta to 1 at the last of total_updates.

        Args:
            batch_size: B.
            step: 0-d int64, gradient step counted from 0 over the whole training.
            keys: [M, 2] int64, (seed, fold).
            hyper: Per-member beta and number of updates.

        Raises:
            ValueError: If nothing was inserted yet.
        """
        self.require_items()
        drawn = prioritised_sample(self._sampled_mass(), batch_size, step, keys)
        weight = importance_weight(
            mass=drawn.mass,
            total=drawn.total,
            count=self.written.clamp(max=self.capacity),
            beta=annealed_beta(step, hyper.per_beta, hyper.total_updates),
        )
        return Sample(index=drawn.index, weight=weight.to(self.dtype))

    def gather(self, sample: Sample, table: FeatureTable | None) -> Batch:
        """Rebuilds the drawn transitions: stored prefix plus rows t and t + 1 of the feature table."""
        index = sample.index
        row = self._at("row", index).long()
        return Batch(
            index=index,
            state=assemble(self._at("prefix", index), table, row),
            action=self._at("action", index).long(),
            reward=self._at("reward", index),
            next_state=assemble(self._at("next_prefix", index), table, row + 1),
            terminated=self._at("terminated", index),
            weight=sample.weight,
        )

    def achieved_goal(self, index: Tensor) -> Tensor:
        """Returns the achieved goals [M, B, G] of slots [M, B]: those of the next state."""
        offset = self.layout.achieved_offset
        return self._at("next_prefix", index)[..., offset : offset + self.layout.goal_dim]

    def ring_rows(self, index: Tensor) -> RingRows:
        """Returns the episode bounds of slots [M, B], as write positions."""
        return RingRows(index, self._at("episode_start", index), self._at("episode_stop", index))

    def write_priorities(
        self, index: Tensor, td_error: Tensor, her_size: Tensor, accept: Tensor, hyper: Hyperparameters
    ) -> None:
        """Writes the priorities of a batch; relabelled rows and refused members write nothing.

        Args:
            index: [M, B] int64, slots.
            td_error: [M, B] float; a member with a non-finite one writes nothing.
            her_size: [M] int32, rows r < her_size are relabelled.
            accept: [M] bool, False for a member whose step was skipped.
            hyper: Per-member alpha.
        """
        written = written_rows(td_error, her_size, accept)
        priority_write(
            self.priority, self.mass, self.largest_error, index, td_error, hyper.per_alpha, written
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Returns copies of the occupied slots and the counters, for a bit-for-bit resume."""
        filled = min(int(self.written), self.capacity)
        slots = {name: tensor[:, :filled].clone() for name, tensor in self._stored.items()}
        return slots | {"largest_error": self.largest_error.clone(), "written": self.written.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores ``state_dict`` in place.

        Raises:
            CheckpointError: If the state belongs to a replay of another shape.
        """
        expected = {*self._stored, "largest_error", "written"}
        if set(state) != expected:
            raise CheckpointError(f"a replay holds {sorted(expected)}, but the checkpoint {sorted(state)}")
        inserted = int(state["written"])
        filled = min(inserted, self.capacity)
        for name, stored in self._stored.items():
            target, source = stored[:, :filled], state[name]
            if source.shape != target.shape or source.dtype != target.dtype:
                raise CheckpointError(
                    f"replay {name} is {target.dtype} {tuple(target.shape)}, "
                    f"but the checkpoint has {source.dtype} {tuple(source.shape)}"
                )
            stored.zero_()
            target.copy_(source)
        self.recompute_mass()
        self.largest_error.copy_(state["largest_error"])
        self.written.copy_(state["written"])
        self._inserted = inserted

    def _sampled_mass(self) -> Tensor:
        # Slots beyond the occupied ones have no mass and change no sum: the CPU skips them. A captured
        # graph would keep the width it was captured with, so a GPU always scans the whole ring.
        if self.mass.device.type != "cpu":
            return self.mass
        return self.mass[:, : min(self._inserted, self.capacity)]

    def _at(self, name: str, index: Tensor) -> Tensor:
        stored = self._stored[name]
        flat = (index + self._member_base).flatten()
        return stored.flatten(0, 1).index_select(0, flat).view(*index.shape, *stored.shape[2:])
