"""What a training tells after every epoch: plain numbers, safe to pickle and to write as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class FoldScore:
    """One seed's result on one test window.

    Attributes:
        seed: The seed's value (not its index).
        fold: Fold index, in time order.
        sharpe: Annualised Sharpe ratio of net bar returns; 0 where it is not defined.
        sharpe_defined: False for constant returns or returns without spread.
        trades: Bars with a change of position other than the forced close.
        total_return: Compounded net return, 0.01 = 1 %.
        bars: Number of returns.
        turnover: Sum of absolute position changes, in units of full exposure.
        bankrupt: Equity reached 0; later bars are not scored.
    """

    seed: int
    fold: int
    sharpe: float
    sharpe_defined: bool
    trades: int
    total_return: float
    bars: int
    turnover: float
    bankrupt: bool


@dataclass(frozen=True)
class WalkForwardScore:
    """The objective of one epoch.

    Attributes:
        value: The score a search maximises: mean over seeds, in [-10, 10]; exactly -10 if degenerate.
        standard_error: Of the annualised Sharpe ratio, Lo (2002), iid; the largest over seeds.
        per_seed: (seed, annualised Sharpe over all folds) in the order of the seeds.
        seed_spread: Standard deviation (ddof 1) over seeds; 0 for one seed.
        folds: Every seed and fold.
        undefined_folds: How many of them have no defined Sharpe ratio.
        degenerate: One reason per degenerate seed, e.g. ``seed 0: 0 trades, min_trades is 1``; empty if fine.
        years: Years of out-of-sample bars, bars / periods per year.
    """

    value: float
    standard_error: float
    per_seed: tuple[tuple[int, float], ...]
    seed_spread: float
    folds: tuple[FoldScore, ...]
    undefined_folds: int
    degenerate: tuple[str, ...]
    years: float

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> WalkForwardScore:
        """Rebuilds a score from plain values, also after JSON turned tuples into lists."""
        plain = dict(values)
        plain["per_seed"] = tuple((int(seed), float(sharpe)) for seed, sharpe in values["per_seed"])
        plain["folds"] = tuple(FoldScore(**fold) for fold in values["folds"])
        plain["degenerate"] = tuple(values["degenerate"])
        return cls(**plain)


@dataclass(frozen=True)
class LearningReport:
    """Means over an epoch's gradient steps and over members.

    Attributes:
        critic_loss: Importance-weighted cross-entropy, nats.
        value_loss: Expectile loss of V_high plus V_low.
        value_gap: Mean of V_high - V_low on sampled states, in reward units.
        gradient_norm: Mean norm of the Q network's gradient before clipping.
        clipped_target_share: Share of target mass outside the support.
        skipped_steps: Member-steps skipped so far because of a non-finite quantity.
        first_moment: Differential Sharpe A at the end of collection, mean over lanes and members.
        variance: Differential Sharpe V likewise.
    """

    critic_loss: float
    value_loss: float
    value_gap: float
    gradient_norm: float
    clipped_target_share: float
    skipped_steps: int
    first_moment: float
    variance: float


@dataclass(frozen=True)
class EpochReport:
    """Everything known after an epoch.

    Attributes:
        epoch: Counts from 1.
        epochs: Of the whole training.
        score: On all test windows, after this epoch.
        learning: Of this epoch's gradient steps.
        seconds: Wall time of collecting, learning and evaluating.
    """

    epoch: int
    epochs: int
    score: WalkForwardScore
    learning: LearningReport
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Nested plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> EpochReport:
        """Rebuilds a report from :meth:`to_dict`, also after JSON turned tuples into lists."""
        return cls(
            epoch=values["epoch"],
            epochs=values["epochs"],
            score=WalkForwardScore.from_dict(values["score"]),
            learning=LearningReport(**values["learning"]),
            seconds=values["seconds"],
        )
