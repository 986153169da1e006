"""Drawing a long line with no more points than a screen shows."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt


def thinned(values: npt.NDArray[np.float64], points: int) -> npt.NDArray[np.int64]:
    """Indices [at most ``points`` + 2] that keep the first, the last, and every stretch's extremes."""
    if values.size <= points:
        return np.arange(values.size)
    edges = np.linspace(0, values.size, max(points // 2, 1) + 1).astype(np.int64)
    kept = {0, values.size - 1}
    for start, stop in itertools.pairwise(edges):
        part = values[start:stop]
        kept.update((int(start + part.argmin()), int(start + part.argmax())))
    return np.array(sorted(kept), dtype=np.int64)
