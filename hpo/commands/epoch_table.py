"""The table that ``foxtune train`` prints: one line per epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.reports import EpochReport, WalkForwardScore

FOLD_WIDTH = 7


def header(folds: int) -> str:
    """The column titles; losses in nats and squared reward units, Sharpe ratios annualised."""
    columns = "".join(f"{f'fold {fold}':>{FOLD_WIDTH + 1}}" for fold in range(folds))
    return f"{'epoch':>7} {'critic':>8} {'value':>8} {'V gap':>8} {columns}  {'wf_sharpe':>16} {'seconds':>8}"


def line(report: EpochReport, folds: int) -> str:
    """One epoch; a fold's column is the mean of its Sharpe ratio over the seeds.

    Behind the columns stand the gradient steps that members have skipped so far, if any, and ``degenerate``.
    """
    learning = report.learning
    columns = "".join(f"{sharpe:>{FOLD_WIDTH + 1}.2f}" for sharpe in fold_sharpes(report.score, folds))
    score = f"{report.score.value:.3f} +- {report.score.standard_error:.3f}"
    skipped = f"  skipped steps: {learning.skipped_steps}" if learning.skipped_steps else ""
    flag = "  degenerate" if report.score.degenerate else ""
    return (
        f"{f'{report.epoch}/{report.epochs}':>7} {learning.critic_loss:>8.4f} {learning.value_loss:>8.4f} "
        f"{learning.value_gap:>8.4f} {columns}  {score:>16} {report.seconds:>8.1f}{skipped}{flag}"
    )


def fold_sharpes(score: WalkForwardScore, folds: int) -> list[float]:
    """Mean Sharpe ratio over the seeds, fold by fold."""
    means: list[float] = []
    for fold in range(folds):
        values = [entry.sharpe for entry in score.folds if entry.fold == fold]
        means.append(sum(values) / len(values))
    return means


def closing(score: WalkForwardScore) -> str:
    """The result in one line, and why it does not count if it is degenerate."""
    text = (
        f"wf_sharpe {score.value:.4f} +- {score.standard_error:.4f} over {score.years:.1f} years of test bars"
    )
    if len(score.per_seed) > 1:
        text += f", spread over {len(score.per_seed)} seeds {score.seed_spread:.4f}"
    if score.degenerate:
        text += f"\ndegenerate ({'; '.join(score.degenerate)}): this training counts as -10"
    return text
