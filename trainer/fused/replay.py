"""FusedReplay: the kernels that insert into, sample from and reprioritise a ReplayBuffer on a CUDA device."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.errors import ConfigError
from trainer.fused.step_buffers import StepBuffers
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.priority_sums import PrioritySums, priority_sums
from trainer.kernels.priority_write import priority_write
from trainer.kernels.replay_insert import replay_insert
from trainer.kernels.replay_sample import replay_sample
from trainer.kernels.sample_indices import DrawInputs, sample_indices
from trainer.layout import FeatureTable
from trainer.replay import ReplayBuffer
from trainer.transitions import Collection


class FusedReplay:
    """Works on the rings of a float32 ``ReplayBuffer``, which stays the owner of state and checkpoint.

    Integer priorities are summed anew from q by every sample, so ``replay.mass`` is not kept here;
    ``replay.recompute_mass()`` restores it for code that samples with the reference. No method
    allocates, synchronises or reads the device, so all of them may stand inside a captured graph.

    Args:
        replay: Rings on a CUDA device, float32.
        table: The market part of the states, None for an environment without one.
        second_state: False does not write s a second time, for steps without V_low.

    Raises:
        ValueError: If the rings are not float32 or hold more than 2^21 items per member.
    """

    def __init__(
        self, replay: ReplayBuffer, table: FeatureTable | None, *, second_state: bool = True
    ) -> None:
        if replay.dtype != torch.float32:
            raise ValueError(f"the fused replay needs float32 rings, but got {replay.dtype}")
        self.replay = replay
        self.table = table
        self._second_state = second_state
        self.sums = PrioritySums.allocate(replay.members, replay.capacity, replay.written.device)

    def insert(self, collection: Collection, hyper: Hyperparameters) -> None:
        """Appends a whole collection lane by lane, with the priority of the largest |delta| seen so far.

        Raises:
            ConfigError: If E L > C, where lanes of one collection would overwrite each other.
        """
        count, replay = collection.row.shape[1] * collection.row.shape[2], self.replay
        if count > replay.capacity:
            raise ConfigError(
                "replay.capacity",
                f"`episodes * episode_length <= capacity` must hold, but got {count} > {replay.capacity}",
            )
        replay_insert(collection, replay.rings, replay.largest_error, replay.written, hyper)
        replay.advance(count)

    def sample_into(self, buffers: StepBuffers, step: Tensor, keys: Tensor, hyper: Hyperparameters) -> None:
        """Draws, gathers and relabels a batch; fills ``buffers`` but for td_error and accept.

        The same rows as ``ReplayBuffer.sample`` and ``gather`` followed by ``hindsight.relabel``.

        Args:
            buffers: Written.
            step: 0-d int64 on the device, gradient step counted from 0 over the whole training.
            keys: [M, 2] int64, (seed, fold).
            hyper: Per-member scalars.

        Raises:
            ValueError: If nothing was inserted yet.
        """
        inputs, replay = self._summed(buffers, step, keys), self.replay
        layout, second_state = replay.layout, self._second_state
        replay_sample(inputs, replay.rings, layout, self.table, hyper, buffers, second_state=second_state)

    def draw_into(self, buffers: StepBuffers, step: Tensor, keys: Tensor, hyper: Hyperparameters) -> None:
        """Draws the slots and raw weights of ``sample_into`` alone; gathers nothing and relabels nothing."""
        inputs = self._summed(buffers, step, keys)
        sample_indices(inputs, hyper, buffers.index, buffers.weight, buffers.largest_weight)

    def write_priorities(self, buffers: StepBuffers, hyper: Hyperparameters) -> None:
        """Writes the priorities of a batch from its ``td_error``; refused members write nothing."""
        replay = self.replay
        priority_write(
            replay.priority, replay.largest_error, buffers.index, buffers.td_error, buffers.accept, hyper
        )

    def _summed(self, buffers: StepBuffers, step: Tensor, keys: Tensor) -> DrawInputs:
        replay = self.replay
        replay.require_items()
        priority_sums(replay.priority, self.sums, buffers.largest_weight)
        return DrawInputs(replay.priority, self.sums, replay.written, keys, step)
