"""The objective of a search: one number for a policy's out-of-sample returns over all folds and seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from trainer.errors import NonFiniteError
from trainer.reports import FoldScore, WalkForwardScore
from trainer.statistics.compounding import total_return
from trainer.statistics.sharpe import annualised_sharpe, has_spread
from trainer.statistics.sharpe_inference import annualised_standard_error
from trainer.wording import plural

Objective: TypeAlias = Literal["wf_sharpe", "mean_fold", "median_fold", "mean_minus_half_sd"]

DEGENERATE_SCORE = -10.0
SCORE_LIMIT = 10.0


@dataclass(frozen=True)
class MemberOutcome:
    """What one member (a seed on a fold) did on its test window of n rows.

    Attributes:
        seed: The seed's value (not its index).
        fold: Fold index in time order.
        returns: [n - 1] float64 net bar returns, 0.01 = 1 %; shorter after a bankruptcy.
        close_returns: [n - 1] float64 returns of the window's closes, whatever the policy did.
        trades: Bars with a change of position other than the forced close.
        turnover: Sum of absolute position changes, in units of full exposure.
        bankrupt: Equity reached 0.
    """

    seed: int
    fold: int
    returns: npt.NDArray[np.float64]
    close_returns: npt.NDArray[np.float64]
    trades: int
    turnover: float
    bankrupt: bool


@dataclass(frozen=True)
class _SeedScore:
    seed: int
    sharpe: float  # annualised, over all folds; 0 where not defined
    value: float  # by the objective
    bars: int
    reasons: tuple[str, ...]  # why it is degenerate


def score(
    members: Sequence[MemberOutcome],
    *,
    objective: Objective,
    min_trades: int,
    periods_per_year: float,
) -> WalkForwardScore:
    """Scores all members of a trial.

    ``wf_sharpe`` joins the folds of a seed in time order and takes the annualised Sharpe ratio (ddof 1,
    risk-free rate 0) of the joined net returns; the other objectives combine the folds' own ratios
    (`combine_folds`). The value is the mean over seeds, clipped to [-10, 10]. If any seed is degenerate
    the value is exactly -10. No field is ever NaN or infinite.

    The standard error is the largest of the seeds' own errors (Lo 2002, iid, annualised). Averaging over
    seeds does not lower it: all seeds trade the same bars, so their sampling errors are shared.
    For a degenerate seed it is taken at its Sharpe ratio, 0 if that is undefined.

    Args:
        members: Every fold of every seed, each once, in any order; all seeds with the same folds.
        objective: Which combination; see above.
        min_trades: A seed with fewer trades over all its folds is degenerate.
        periods_per_year: Bars per year.

    Raises:
        NonFiniteError: A return is NaN or infinite; ``step`` is its bar in the test window. Such a
            training has failed, and is not merely degenerate.
        ValueError: No members, a fold twice, or seeds with different folds.
    """
    by_seed = _grouped(members)
    _refuse_non_finite(members)
    seeds = [
        _score_seed(seed, folds, objective, min_trades, periods_per_year) for seed, folds in by_seed.items()
    ]
    folds = tuple(_score_fold(member, periods_per_year) for group in by_seed.values() for member in group)
    reasons = tuple(f"seed {each.seed}: {'; '.join(each.reasons)}" for each in seeds if each.reasons)
    mean = math.fsum(each.value for each in seeds) / len(seeds)
    bars = max(each.bars for each in seeds)
    sharpes = [each.sharpe for each in seeds]
    return WalkForwardScore(
        value=DEGENERATE_SCORE if reasons else float(np.clip(mean, -SCORE_LIMIT, SCORE_LIMIT)),
        standard_error=max(_standard_error(each, periods_per_year) for each in seeds),
        per_seed=tuple((each.seed, each.sharpe) for each in seeds),
        seed_spread=float(np.std(sharpes, ddof=1)) if len(sharpes) > 1 else 0.0,
        folds=folds,
        undefined_folds=sum(not fold.sharpe_defined for fold in folds),
        degenerate=reasons,
        years=bars / periods_per_year,
    )


def combine_folds(sharpes: Sequence[float | None], objective: Objective) -> tuple[float, int]:
    """Combines the Sharpe ratios of one seed's folds.

    An undefined fold (None, NaN or infinite) counts 0 and is never dropped: dropping would pay a policy
    for not trading the folds it finds hard.

    Args:
        sharpes: One annualised ratio per fold.
        objective: ``mean_fold``, ``median_fold`` or ``mean_minus_half_sd`` (mean less half the standard
            deviation over folds, ddof 1; the deviation of a single fold is 0).

    Returns:
        (combined ratio, number of undefined folds).

    Raises:
        ValueError: No folds, or ``wf_sharpe``, which needs returns rather than ratios.
    """
    if not sharpes:
        raise ValueError("at least one fold is needed, but got ()")
    defined = [each is not None and math.isfinite(each) for each in sharpes]
    values = np.array([each if ok else 0.0 for each, ok in zip(sharpes, defined, strict=True)], np.float64)
    undefined = defined.count(False)
    if objective == "mean_fold":
        return float(values.mean()), undefined
    if objective == "median_fold":
        return float(np.median(values)), undefined
    if objective == "mean_minus_half_sd":
        spread = float(values.std(ddof=1)) if values.size > 1 else 0.0
        return float(values.mean()) - spread / 2.0, undefined
    raise ValueError(f"`objective` must combine fold ratios, but got ({objective=})")


def _score_seed(
    seed: int,
    folds: Sequence[MemberOutcome],
    objective: Objective,
    min_trades: int,
    periods_per_year: float,
) -> _SeedScore:
    joined = np.concatenate([member.returns for member in folds])
    sharpe = annualised_sharpe(joined, periods_per_year)
    if objective == "wf_sharpe":
        value = sharpe or 0.0
    else:
        own = [annualised_sharpe(member.returns, periods_per_year) for member in folds]
        value, _ = combine_folds(own, objective)
    return _SeedScore(seed, sharpe or 0.0, value, joined.size, tuple(_reasons(folds, joined, min_trades)))


def _reasons(folds: Sequence[MemberOutcome], joined: npt.NDArray[np.float64], min_trades: int) -> list[str]:
    """Why a seed is degenerate, in words; empty if it is not."""
    reasons = []
    bankrupt = [member.fold for member in folds if member.bankrupt]
    trades = sum(member.trades for member in folds)
    if bankrupt:
        reasons.append(f"bankrupt in fold {', '.join(map(str, bankrupt))}")
    if trades < min_trades:
        reasons.append(f"{plural(trades, 'trade')}, min_trades is {min_trades}")
    if not any(has_spread(member.close_returns) for member in folds):
        reasons.append("the closes of every test window are constant or change at a constant rate")
    if not has_spread(joined):
        reasons.append("net returns have no spread")
    return reasons


def _score_fold(member: MemberOutcome, periods_per_year: float) -> FoldScore:
    sharpe = annualised_sharpe(member.returns, periods_per_year)
    return FoldScore(
        seed=member.seed,
        fold=member.fold,
        sharpe=sharpe or 0.0,
        sharpe_defined=sharpe is not None,
        trades=member.trades,
        total_return=total_return(member.returns),
        bars=member.returns.size,
        turnover=member.turnover,
        bankrupt=member.bankrupt,
    )


def _standard_error(seed: _SeedScore, periods_per_year: float) -> float:
    return annualised_standard_error(seed.sharpe, seed.bars, periods_per_year) if seed.bars else 0.0


def _grouped(members: Sequence[MemberOutcome]) -> dict[int, list[MemberOutcome]]:
    """Seed -> its members in time order; seeds in order of first appearance."""
    if not members:
        raise ValueError("at least one member is needed, but got ()")
    groups: dict[int, list[MemberOutcome]] = {}
    for member in members:
        groups.setdefault(member.seed, []).append(member)
    for group in groups.values():
        group.sort(key=lambda member: member.fold)
    folds = {seed: [member.fold for member in group] for seed, group in groups.items()}
    first = next(iter(folds.values()))
    for seed, own in folds.items():
        if len(set(own)) != len(own) or own != first:
            raise ValueError(f"every seed needs the same folds, each once, but seed {seed} has {own}")
    return groups


def _refuse_non_finite(members: Sequence[MemberOutcome]) -> None:
    for index, member in enumerate(members):
        bad = np.flatnonzero(~np.isfinite(member.returns))
        if bad.size:
            raise NonFiniteError("net return", int(bad[0]), index)
