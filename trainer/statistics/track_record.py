"""Minimum track record length: how many observations make a Sharpe ratio believable."""

from __future__ import annotations

from scipy.special import ndtri

from trainer.statistics.moments import Moments
from trainer.statistics.probabilistic_sharpe import ratio_variance_factor


def minimum_track_record(
    ratio: float, shape: Moments, threshold: float = 0.0, confidence: float = 0.95
) -> float | None:
    """MinTRL = 1 + (1 - g3 SR + (g4 - 1) / 4 SR^2) (Phi^-1(confidence) / (SR - SR*))^2.

    At this length the probabilistic Sharpe ratio equals ``confidence``.

    Args:
        ratio: SR per observation.
        shape: gamma_3 and gamma_4 (non-excess) of the returns.
        threshold: SR*, per observation.
        confidence: Level in (0.5, 1).

    Returns:
        Observations (divide by the observations per year for years), or None where SR <= SR*: no length
        suffices.

    Raises:
        ValueError: For a confidence outside (0.5, 1) or impossible moments.

    References:
        Bailey and Lopez de Prado (2012), The Sharpe ratio efficient frontier, Journal of Risk 15(2).
    """
    if not 0.5 < confidence < 1.0:
        raise ValueError(f"`0.5 < confidence < 1` must hold, but got ({confidence=})")
    factor = ratio_variance_factor(ratio, shape)
    if ratio <= threshold:
        return None
    return 1.0 + factor * (float(ndtri(confidence)) / (ratio - threshold)) ** 2
