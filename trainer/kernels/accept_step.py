"""accept_step: launches cuda/accept_step.cu."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainer.finite_guard import FiniteGuard
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.gradient_norm import pieces_of
from trainer.kernels.loader import load
from trainer.learning_means import LearningMeans

THREADS = 512
SCALARS = 12  # floats of StepScalars, cuda/step_scalars.cuh


@dataclass(frozen=True)
class StepVerdict:
    """What the step does and did, per member, on the device."""

    scalars: Tensor  # [networks, M, 12] float32, StepScalars of Q, V_high and V_low
    adam_step: Tensor  # [M] int64, accepted steps so far
    updates: Tensor  # [M] int64, all steps so far; the same number in every member
    report: Tensor  # [5, M] float32, this step's critic loss, value loss, gap, norm of Q, clipped share

    @classmethod
    def allocate(cls, members: int, networks: int, device: torch.device) -> StepVerdict:
        """The state before the first step; 3 networks with IQL, 1 without."""

        def counter() -> Tensor:
            return torch.zeros(members, dtype=torch.int64, device=device)

        def real(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float32, device=device)

        return cls(real(networks, members, SCALARS), counter(), counter(), real(5, members))


def accept_step(
    part: Tensor,
    td_error: Tensor,
    row_terms: Tensor,
    hyper: Hyperparameters,
    accept: Tensor,
    verdict: StepVerdict,
    guard: FiniteGuard,
    means: LearningMeans,
    widths: tuple[int, int],
) -> None:
    """Judges the step of every member and prepares the optimiser's scalars.

    Args:
        part: [M, pieces] float32 of :func:`gradient_norm`.
        td_error: [M, B] float32.
        row_terms: [4, M, B] float32.
        hyper: Optimiser scalars are read on the device.
        accept: [M] int32, out: 1 where everything is finite.
        verdict: Written; its counters advance.
        guard: Counts what is skipped.
        means: Adds this step where it is accepted.
        widths: Parameters of Q and of a value network (0 without IQL).
    """
    networks, members, _ = verdict.scalars.shape
    load("accept_step", (("NETWORKS", networks),)).launch(
        (members,),
        THREADS,
        part,
        td_error,
        row_terms,
        hyper.learning_rate,
        hyper.adam_beta1,
        hyper.adam_beta2,
        hyper.adam_eps,
        hyper.weight_decay,
        hyper.max_norm,
        hyper.polyak_tau,
        accept,
        verdict.scalars,
        verdict.adam_step,
        verdict.updates,
        guard.skipped,
        guard.first_step,
        guard.first_quantity,
        means.sums,
        means.count,
        verdict.report,
        np.int32(td_error.shape[1]),
        np.int32(pieces_of(widths[0])),
        np.int32(pieces_of(widths[1])),
    )
