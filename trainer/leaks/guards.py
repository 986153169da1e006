"""guards: every guard, asked before anything is trained. A new one is a file here and a line in GUARDS."""

from __future__ import annotations

from trainer.config import TrainerConfig
from trainer.data.market_data import MarketData
from trainer.errors import LeakError
from trainer.folds import Split
from trainer.leaks.causal_features import causal_features
from trainer.leaks.fold_order import fold_order
from trainer.leaks.foreseeing_column import foreseeing_column
from trainer.leaks.guard import Guard, Judgement, Verdict
from trainer.leaks.same_bar_fill import same_bar_fill
from trainer.leaks.scaler_window import scaler_window

GUARDS: tuple[Guard, ...] = (causal_features, scaler_window, foreseeing_column, same_bar_fill, fold_order)


def verdicts(market: MarketData, split: Split, config: TrainerConfig) -> tuple[Verdict, ...]:
    """Asks every guard."""
    return tuple(guard(market, split, config) for guard in GUARDS)


def require_no_leak(market: MarketData, split: Split, config: TrainerConfig) -> tuple[str, ...]:
    """Refuses data or a split through which a training could see the future.

    Returns:
        One sentence per warning.

    Raises:
        LeakError: Naming the guard, the column or rows, and the fix.
    """
    found = verdicts(market, split, config)
    for verdict in found:
        if verdict.judgement is Judgement.LEAK:
            raise LeakError(f"{verdict.guard}: {verdict.message}")
    return tuple(
        f"{verdict.guard}: {verdict.message}" for verdict in found if verdict.judgement is Judgement.WARNING
    )
