"""Walk-forward folds: training and test windows in time order, a purge between them, a hold-out after all.

Fold k trains on [s, s + train) and tests on [s + train + purge, ... + test), with s = k step (rolling) or
a training window that grows from 0 to train + k step (anchored). The purge: Lopez de Prado 2018, chapter 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from trainer.config import WalkForwardConfig
from trainer.errors import ConfigError
from trainer.wording import plural

MIN_WINDOW = 2  # bars; a window of n bars has n - 1 returns


@dataclass(frozen=True)
class Fold:
    """Row ranges of one fold; stops are exclusive."""

    train_start: int
    train_stop: int
    test_start: int
    test_stop: int


@dataclass(frozen=True)
class Split:
    """All folds of a history.

    Attributes:
        folds: In time order.
        search_rows: Rows that a search may see, floor((1 - holdout_frac) n).
        holdout_start: First row of the hold-out; equals ``search_rows``.
        unused_rows: Rows between the last test window and the hold-out: a tail shorter than a test window.
    """

    folds: tuple[Fold, ...]
    search_rows: int
    holdout_start: int
    unused_rows: int


@dataclass(frozen=True)
class _Sizes:
    train: int
    test: int
    step: int
    count: int


def split(rows: int, config: WalkForwardConfig) -> Split:
    """Cuts ``rows`` bars into folds. One fold is enough here; see ``require_min_folds``.

    Raises:
        ConfigError: Where the windows do not fit, naming the keys and both numbers of rows.
    """
    share = 1 - Fraction(repr(config.holdout_frac))  # exact: (1 - .9) * 10 must be 1
    search_rows = int(share * rows)
    sizes = _sizes(rows, search_rows, config)
    folds = []
    for k in range(sizes.count):
        shift = k * sizes.step
        train_start = shift if config.mode == "rolling" else 0
        test_start = shift + sizes.train + config.purge
        folds.append(Fold(train_start, shift + sizes.train, test_start, test_start + sizes.test))
    return Split(tuple(folds), search_rows, search_rows, search_rows - folds[-1].test_stop)


def require_min_folds(cut: Split, config: WalkForwardConfig) -> None:
    """Refuses a split that is too small for a search or a training.

    Raises:
        ConfigError: With fewer than ``walk_forward.min_folds`` folds.
    """
    if len(cut.folds) < config.min_folds:
        raise ConfigError(
            "walk_forward.min_folds",
            f"`folds >= min_folds` must hold, but got ({len(cut.folds)} < {config.min_folds}); lower "
            "walk_forward.train, walk_forward.test or walk_forward.step, raise walk_forward.folds, or give "
            "more rows",
        )


def _sizes(rows: int, search_rows: int, config: WalkForwardConfig) -> _Sizes:
    train = search_rows // 2 if config.train is None else config.train
    left = search_rows - train - config.purge
    derived = config.test is None and config.step is None
    test = left // config.folds if derived else (config.test or config.step or 0)
    step = config.step or test
    if derived and (test < MIN_WINDOW or train < MIN_WINDOW):
        raise ConfigError("walk_forward.folds", _too_short(rows, search_rows, config, train))
    if min(train, test) < MIN_WINDOW:
        key = "walk_forward.train" if train < MIN_WINDOW else "walk_forward.test"
        raise ConfigError(key, f"a window needs {MIN_WINDOW} rows, but got ({train=}, {test=}); raise it")
    if step < test:
        raise ConfigError(
            "walk_forward.step",
            f"`step >= test` must hold, or bars would be scored twice, but got ({step=}, {test=}); "
            "raise walk_forward.step or lower walk_forward.test",
        )
    needed = train + config.purge + test
    if needed > search_rows:
        raise ConfigError(
            "walk_forward.train",
            f"one fold needs {needed} rows, has {_has(rows, search_rows, config)}: "
            f"walk_forward.train {train} + walk_forward.purge {config.purge} + walk_forward.test {test}; "
            "lower one of them or give more rows",
        )
    count = config.folds if derived else (search_rows - needed) // step + 1
    return _Sizes(train, test, step, count)


def _has(rows: int, search_rows: int, config: WalkForwardConfig) -> str:
    if search_rows == rows:
        return str(rows)
    return f"{search_rows} ({rows} less the hold-out, walk_forward.holdout_frac {config.holdout_frac:g})"


def _too_short(rows: int, search_rows: int, config: WalkForwardConfig, train: int) -> str:
    needed = max(train, MIN_WINDOW) + config.purge + MIN_WINDOW * config.folds
    return (
        f"{plural(config.folds, 'fold')} must have {needed} rows (walk_forward.train {train}, "
        f"walk_forward.purge {config.purge}, {MIN_WINDOW} rows a walk_forward.test window), has "
        f"{_has(rows, search_rows, config)}; lower walk_forward.folds or give more rows"
    )
