"""Probability of backtest overfitting, by combinatorially symmetric cross-validation (CSCV)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainer.statistics.sharpe import RELATIVE_SPREAD

CHUNK = 512  # combinations worked on at once: bounds the memory, not the result

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Overfitting:
    """Result of the cross-validation.

    Attributes:
        probability: PBO, share of splits whose in-sample winner falls below the out-of-sample median; a
            winner exactly at the median counts half.
        logits: [combinations] log(w / (1 - w)) of the winner's relative out-of-sample rank w.
        trials: N.
        blocks: S.
        unused_rows: Leading rows left out so that S blocks have equal length.
    """

    probability: float
    logits: Matrix
    trials: int
    blocks: int
    unused_rows: int


def backtest_overfitting(returns: npt.ArrayLike, blocks: int = 16) -> Overfitting | None:
    """PBO of choosing the trial with the highest Sharpe ratio.

    The rows are cut into S blocks of equal length. For every half of the blocks: the winner has the
    highest Sharpe ratio on it, and w = rank / (N + 1) is its rank by Sharpe ratio on the other half.
    Equal ratios share their mean rank (ties count half); several winners are averaged over. A ratio
    without spread counts 0.

    Args:
        returns: [T, N], one column per trial, the same bars in each.
        blocks: S, even, >= 2; 16 gives 12870 splits.

    Returns:
        The result, or None where it is not defined: fewer than two columns, or all columns identical.

    Raises:
        ValueError: For an odd S, T < 2 S, or values that are not finite.

    References:
        Bailey, Borwein, Lopez de Prado and Zhu (2017), The probability of backtest overfitting, Journal
        of Computational Finance 20(4).
    """
    values = np.asarray(returns, dtype=np.float64)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise ValueError(f"returns must be a finite [T, N] matrix, but got shape {values.shape}")
    if blocks < 2 or blocks % 2 or values.shape[0] < 2 * blocks:
        raise ValueError(f"`blocks even, T >= 2 blocks` must hold, but got ({blocks=}, T={values.shape[0]})")
    trials = values.shape[1]
    if trials < 2 or (values == values[:, :1]).all():
        return None
    unused = values.shape[0] % blocks
    parts = _BlockMoments.of(values[unused:].reshape(blocks, -1, trials))
    halves = np.array(list(itertools.combinations(range(blocks), blocks // 2)))
    pairs = [
        _below_and_logit(parts.sharpe(chunk), parts.sharpe(_complement(chunk, blocks)))
        for chunk in np.array_split(halves, -(-len(halves) // CHUNK))
    ]
    below = np.concatenate([pair[0] for pair in pairs])
    logits = np.concatenate([pair[1] for pair in pairs])
    return Overfitting(float(below.mean()), logits, trials, blocks, unused)


@dataclass(frozen=True)
class _BlockMoments:
    """Per block and trial [S, N]: mean, sum of squared deviations from it, largest absolute return."""

    mean: Matrix
    squares: Matrix
    largest: Matrix
    length: int

    @classmethod
    def of(cls, cut: Matrix) -> _BlockMoments:
        mean = cut.mean(axis=1)
        squares = np.square(cut - mean[:, None, :]).sum(axis=1)
        return cls(mean, squares, np.abs(cut).max(axis=1), cut.shape[1])

    def sharpe(self, chosen: npt.NDArray[np.int64]) -> Matrix:
        """Sharpe ratios [C, N] of the joined blocks ``chosen`` [C, S/2]; 0 where not defined.

        Deviations are merged around the joint mean (no difference of large sums), so that a flat
        stretch gives exactly 0 and not rounding noise that would break ties.
        """
        means = self.mean[chosen]  # [C, S/2, N]
        joint = means.mean(axis=1)
        between = np.square(means - joint[:, None, :]).sum(axis=1) * self.length
        count = chosen.shape[1] * self.length
        deviation = np.sqrt((self.squares[chosen].sum(axis=1) + between) / (count - 1))
        defined = deviation > RELATIVE_SPREAD * self.largest[chosen].max(axis=1)
        ratio: Matrix = np.divide(joint, deviation, out=np.zeros_like(joint), where=defined)
        return ratio


def _complement(halves: npt.NDArray[np.int64], blocks: int) -> npt.NDArray[np.int64]:
    """The other blocks of every row of ``halves`` [C, S/2], ascending."""
    absent = np.ones((len(halves), blocks), dtype=bool)
    np.put_along_axis(absent, halves, False, axis=1)
    return np.nonzero(absent)[1].reshape(len(halves), -1)


def _below_and_logit(inside: Matrix, outside: Matrix) -> tuple[Matrix, Matrix]:
    """Per split [C]: share of winners below the median (half at it), and their mean logit."""
    trials = inside.shape[1]
    winner = inside == inside.max(axis=1, keepdims=True)  # [C, N]
    split, column = np.nonzero(winner)
    own = outside[split, column][:, None]
    less = (outside[split] < own).sum(axis=1)
    equal = (outside[split] == own).sum(axis=1)
    rank = less + (equal + 1) / 2.0
    relative = rank / (trials + 1)
    weight = 1.0 / winner.sum(axis=1)[split]
    verdict = np.where(2 * rank == trials + 1, 0.5, 2 * rank < trials + 1)
    size = len(inside)
    odds = np.log(relative / (1.0 - relative))
    below: Matrix = np.bincount(split, weights=weight * verdict, minlength=size).astype(np.float64)
    logit: Matrix = np.bincount(split, weights=weight * odds, minlength=size).astype(np.float64)
    return below, logit
