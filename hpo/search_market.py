"""The market of a search: loaded once, in the driver; refused where a trial could see the future by it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

from hpo.cluster.cluster_address import joins
from hpo.config import SearchConfig
from hpo.outcome import Say
from trainer.errors import ConfigError

if TYPE_CHECKING:
    from trainer.data.market_data import MarketData


def load_market(search: SearchConfig, say: Say = lambda line: None) -> MarketData:
    """Loads the data once, in the driver, and asks the leak guards; trials get it through Ray's object store.

    Args:
        search: Names the data and the folds.
        say: Is given the warnings of the file's reader and of the guards.

    Raises:
        LeakError: Where a trial could see the future.
        ConfigError: If the driver's node has no such file, naming the node where it is one of a cluster's,
            or if the data give too few folds.
    """
    from trainer.data import market
    from trainer.data.sources import is_named

    path = search.trainer.data.path
    if joins(search.ray.address) and not is_named(path) and not Path(path).expanduser().is_file():
        raise ConfigError(
            "data.path",
            f"{Path(path).expanduser().absolute()} does not exist on node {socket.gethostname()}, where the "
            "search reads it; put it there, or submit from a folder that holds it",
        )
    data = market.load_market(search.trainer)
    for warning in (*data.bars.findings.warnings, *_leak_warnings(data, search)):
        say(f"warning: {warning}")
    return data


def market_of(search: SearchConfig, market: MarketData | None, say: Say) -> MarketData:
    """Loads the market, or refuses a caller's own if a trial could see the future by its columns.

    Args:
        search: Names the data and the folds.
        market: The caller's own.
        say: Is given the warnings of :func:`load_market`.
    """
    from trainer.data.market_data import MarketData

    if market is None:
        return load_market(search, say)
    if isinstance(market, MarketData):
        _leak_warnings(market, search)
    return market


def _leak_warnings(market: MarketData, search: SearchConfig) -> tuple[str, ...]:
    from trainer.folds import require_min_folds, split
    from trainer.leaks.guards import require_no_leak

    parts = split(len(market.bars), search.trainer.walk_forward)
    require_min_folds(parts, search.trainer.walk_forward)
    return require_no_leak(market, parts, search.trainer)
