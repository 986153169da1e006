"""Hindsight experience replay: relabels the first her_size rows of a sampled batch."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from trainer.hyperparameters import Hyperparameters
from trainer.reference.donor_select import donor_select
from trainer.reference.hindsight_relabel import hindsight_relabel
from trainer.reference.philox import Purpose, draw
from trainer.replay import ReplayBuffer
from trainer.transitions import Batch


def relabel(
    batch: Batch,
    replay: ReplayBuffer,
    step: Tensor,
    keys: Tensor,
    hyper: Hyperparameters,
) -> Batch:
    """Gives rows r < her_size[m] the achieved goal of a donor (Andrychowicz et al. 2017).

    Action, flags and index are copied. The weight stays the one the row was drawn with, or becomes 1
    where ``her_weight_one``. Where her_size is 0 the batch comes back bit for bit.

    Args:
        batch: B rows per member, as gathered.
        replay: The ring the rows came from; donors are looked up in it.
        step: 0-d int64, gradient step.
        keys: [M, 2] int64, (seed, fold).
        hyper: Per-member ratio, strategy, offset, threshold and weight rule.
    """
    row = torch.arange(batch.index.shape[1], dtype=torch.int64, device=batch.index.device)
    relabelled = row < hyper.her_size[:, None]
    donor = donor_select(
        rows=replay.ring_rows(batch.index),
        written=replay.written,
        capacity=replay.capacity,
        word=draw(keys, Purpose.DONOR, step, row)[..., 0],
        strategy=hyper.her_strategy,
        future_offset=hyper.her_future_offset,
    )
    changed = hindsight_relabel(
        state=batch.state,
        next_state=batch.next_state,
        reward=batch.reward,
        goal=replay.achieved_goal(donor),
        achieved_offset=replay.layout.achieved_offset,
        relabelled=relabelled,
        threshold=hyper.her_threshold,
    )
    weight = batch.weight.masked_fill(relabelled & hyper.her_weight_one[:, None], 1.0)
    return replace(
        batch,
        state=changed.state,
        next_state=changed.next_state,
        reward=changed.reward,
        weight=weight,
    )
