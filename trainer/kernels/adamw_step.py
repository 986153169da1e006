"""adamw_step: launches cuda/adamw_step.cu."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from trainer.fused.parameters import NetworkParameters
from trainer.kernels.gradient_norm import NULL
from trainer.kernels.loader import load

THREADS = 256
PARAMETERS_PER_THREAD = 4


def adamw_step(parameters: NetworkParameters, scalars: Tensor) -> None:
    """Clips, steps and lets the slow copies follow; refused members stay as they are.

    Args:
        parameters: One network kind; ``value``, moments and ``operand`` change.
        scalars: [networks of the kind, M, 12] float32, StepScalars; contiguous.
    """
    online, targets = parameters.online, parameters.targets
    width = parameters.block.width
    copies = parameters.operand is not parameters.value
    value, operand = parameters.value, parameters.operand
    load("adamw_step", (("BF16_COPIES", int(copies)),)).launch(
        (-(-width // (PARAMETERS_PER_THREAD * THREADS)), online),
        THREADS,
        value,
        parameters.gradient,
        parameters.first,
        parameters.second,
        value[online:] if targets else NULL,
        operand if copies else NULL,
        operand[online:] if copies and targets else NULL,
        parameters.decays,
        scalars,
        np.int32(parameters.gradient.shape[1]),
        np.int32(targets),
        np.int32(width),
    )
