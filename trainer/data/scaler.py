"""Standardisation of features by the statistics of one training window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RELATIVE_FLOOR = 1e-6  # a deviation below this share of the largest value is rounding, not information


@dataclass(frozen=True)
class Scaler:
    """Standardised value = (raw - center) * inverse_scale.

    Attributes:
        center: [F] float64 mean over the window.
        inverse_scale: [F] float64, one over the deviation; 0 for a column that is constant in the
            window, since nothing can be learned of it there and it must not surprise the test rows.
    """

    center: NDArray[np.float64]
    inverse_scale: NDArray[np.float64]


def fit_scaler(features: NDArray[np.float32], start: int, stop: int) -> Scaler:
    """Fits mean and deviation (ddof 0) on rows [start, stop) of features [N, F]; no other row is read."""
    window = features[start:stop].astype(np.float64)
    center = window.mean(axis=0)
    deviation = np.sqrt(np.mean((window - center) ** 2, axis=0))
    varies = deviation > RELATIVE_FLOOR * np.abs(window).max(axis=0)
    inverse = np.zeros_like(deviation)
    np.divide(1.0, deviation, out=inverse, where=varies)
    return Scaler(center, inverse)
