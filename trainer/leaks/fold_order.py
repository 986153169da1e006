"""Does every fold test on bars after its training window, and no bar twice?"""

from __future__ import annotations

from trainer.config import TrainerConfig
from trainer.data.market_data import MarketData
from trainer.folds import Split
from trainer.leaks.guard import Judgement, Verdict
from trainer.wording import plural

GUARD = "fold order"


def fold_order(market: MarketData, split: Split, config: TrainerConfig) -> Verdict:
    """Training, then the purge, then test; test windows apart; the hold-out untouched."""
    end = 0
    for number, fold in enumerate(split.folds):
        train, test = f"[{fold.train_start}, {fold.train_stop})", f"[{fold.test_start}, {fold.test_stop})"
        if fold.test_start < fold.train_stop + config.walk_forward.purge:
            return _leak(
                f"a test window must begin walk_forward.purge {config.walk_forward.purge} rows after the "
                f"training window, but fold {number} trains on {train} and tests on {test}"
            )
        if fold.test_start < end:
            return _leak(
                f"no row may be tested twice, but fold {number} tests on {test} and one before to {end}"
            )
        if fold.test_stop > split.holdout_start:
            return _leak(
                f"the hold-out begins at row {split.holdout_start}, but fold {number} tests on {test}"
            )
        end = fold.test_stop
    if config.walk_forward.purge == 0:
        return Verdict(
            GUARD,
            Judgement.WARNING,
            "walk_forward.purge is 0: training ends where the test begins; set it to 1 or more",
        )
    return Verdict(
        GUARD, Judgement.CLEAN, f"{plural(len(split.folds), 'fold')} in order, no row tested twice"
    )


def _leak(message: str) -> Verdict:
    return Verdict(GUARD, Judgement.LEAK, f"{message}; mend trainer/folds.py")
