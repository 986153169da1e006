"""MarketData: bars with their features, ready for an environment."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainer.data.bars import Bars, Fill
from trainer.data.features import FEATURE_VERSION


@dataclass(frozen=True)
class MarketData:
    """One market. Holds numpy arrays and plain values only, so that it pickles.

    Attributes:
        name: Name of a built-in market, or the file's absolute path.
        bars: N validated bars.
        features: [N, F] float32, raw (scalers are fitted per fold).
        feature_names: F names.
        periods_per_year: Bars per year, for annualisation.
        default_fill: Fill of market orders where the configuration gives none.
        data_hash: SHA-256 of everything here that decides a training's numbers.
    """

    name: str
    bars: Bars
    features: NDArray[np.float32]
    feature_names: tuple[str, ...]
    periods_per_year: float
    default_fill: Fill
    data_hash: str


def content_hash(
    bars: Bars, feature_names: tuple[str, ...], features: NDArray[np.float32] | None = None
) -> str:
    """Hashes what decides numbers: the bars as read, and which features are made of them.

    Default features are a function of the bars, so their version is hashed instead of their values,
    whose last bit may differ between processors. Where a file lies and how it is written do not count.

    Args:
        bars: The bars after reading, repair and adjustment.
        feature_names: Names of the columns.
        features: [N, F] columns that are not a function of the bars, or None.
    """
    digest = hashlib.sha256()
    header = [FEATURE_VERSION, list(feature_names), bars.returns, bars.default_fill, len(bars)]
    digest.update(json.dumps(header).encode())
    digest.update(np.ascontiguousarray(bars.timestamp, dtype="<i8").tobytes())
    for values in (bars.open, bars.high, bars.low, bars.close, bars.volume):
        # adding 0 turns -0 into 0: equal numbers must give equal hashes
        digest.update(np.ascontiguousarray(values + 0.0, dtype="<f8").tobytes())
    if features is not None:
        digest.update(np.ascontiguousarray(features + np.float32(0), dtype="<f4").tobytes())
    return digest.hexdigest()
