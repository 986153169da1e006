"""Synthetic markets with a known answer: they tell a learner that works from one that only seems to.

All of them share the signal x, an AR(1) with persistence .9 and unit deviation, hourly bars that open at
the last close, and noise eps ~ N(0, 1) in units of NOISE per bar. The range reaches a little beyond
open and close, so that a limit order at the last close always fills there: with the whole cost as a fee,
every order type pays the same and the best policy depends on x and the position alone (known_optimum.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trainer.data.bars import Bars, Findings, Returns
from trainer.data.calendar import periods_per_year
from trainer.data.market_data import MarketData, content_hash
from trainer.errors import ConfigError

Floats = NDArray[np.float64]

PERSISTENCE = 0.9
STRENGTH = 0.3  # mean of the next return per unit of x, in noise deviations
NOISE = 0.01  # deviation of eps, as a share of the price
COST_BP = 70.0  # .7 noise deviations per unit of exposure traded, as a fee
START_PRICE = 100.0
FIRST_BAR = 946_684_800 * 10**9  # 2000-01-01T00:00Z, ns
STEP = 3600 * 10**9
WICK = 0.001  # share by which the range reaches beyond open and close
PREFIX = "synthetic:"
DEFAULT_ROWS = 10_000
MOST_ROWS = 2_000_000  # hourly bars from the year 2000 on must fit the range of nanoseconds in int64


def known_answer(rows: int, seed: int) -> MarketData:
    """r[t+1] = .3 x[t] + eps with x as a feature, meant for COST_BP; known_optimum.py has the answer."""
    x, noise = _signal(rows, seed), _noise(rows, seed)
    returns = NOISE * (STRENGTH * np.concatenate([[0.0], x[:-1]]) + noise)
    return _market(f"known_answer:{rows}:{seed}", returns, x)


def no_signal(rows: int, seed: int) -> MarketData:
    """The same x, but returns that have nothing to do with it: no policy earns anything on average."""
    return _market(f"no_signal:{rows}:{seed}", NOISE * _noise(rows, seed), _signal(rows, seed))


def planted(rows: int, seed: int) -> MarketData:
    """Noise returns whose next sign is told by the feature: a learner that misses it is broken."""
    returns = NOISE * _noise(rows, seed)
    return _market(f"planted:{rows}:{seed}", returns, np.sign(np.concatenate([returns[1:], [0.0]])))


_MAKERS: tuple[Callable[[int, int], MarketData], ...] = (known_answer, no_signal, planted)


def is_synthetic(path: str) -> bool:
    """Whether ``data.path`` names a synthetic market."""
    return path.startswith(PREFIX) or path.split(":")[0] in {maker.__name__ for maker in _MAKERS}


def synthetic_market(path: str, override: float | None = None, returns: Returns = "percent") -> MarketData:
    """Builds ``synthetic:NAME[:ROWS[:SEED]]``, e.g. ``synthetic:known_answer:20000:3``.

    Args:
        path: ``data.path``; the prefix may be left out.
        override: ``metrics.periods_per_year``.
        returns: ``data.returns``.

    Raises:
        ConfigError: For an unknown name, or rows or a seed that are no such numbers.
    """
    name, *numbers = path.removeprefix(PREFIX).split(":")
    makers = {maker.__name__: maker for maker in _MAKERS}
    if name not in makers:
        raise ConfigError("data.path", f"unknown synthetic market {name!r}; known are {', '.join(makers)}")
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise ConfigError("data.path", f"{path!r} must read {PREFIX}{name}[:ROWS[:SEED]] with whole numbers")
    rows, seed = [int(number) for number in numbers] + [DEFAULT_ROWS, 0][len(numbers) :]
    if not 2 <= rows <= MOST_ROWS:
        raise ConfigError("data.path", f"`2 <= rows <= {MOST_ROWS}` must hold, but got ({rows=}) in {path!r}")
    market = makers[name](rows, seed)
    bars = replace(market.bars, returns=returns)
    return replace(
        market,
        bars=bars,
        periods_per_year=override or market.periods_per_year,
        data_hash=content_hash(bars, market.feature_names, market.features),
    )


def _generator(seed: int, stream: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, stream])))


def _noise(rows: int, seed: int) -> Floats:
    return _generator(seed, 0).standard_normal(rows)


def _signal(rows: int, seed: int) -> Floats:
    shocks = _generator(seed, 1).standard_normal(rows)
    spread = (1 - PERSISTENCE**2) ** 0.5
    x = np.empty(rows)
    x[0] = value = float(shocks[0])  # a draw from the stationary distribution, which has unit deviation
    for t, shock in enumerate(shocks[1:].tolist(), start=1):
        value = PERSISTENCE * value + spread * shock
        x[t] = value
    return x


def _market(name: str, returns: Floats, signal: Floats) -> MarketData:
    close = np.asarray(START_PRICE * np.cumprod(1 + returns), dtype=np.float64)
    opened = np.concatenate([[START_PRICE], close[:-1]])
    bars = Bars(
        timestamp=FIRST_BAR + STEP * np.arange(len(close), dtype=np.int64),
        open=opened,
        high=np.maximum(opened, close) * (1 + WICK),
        low=np.minimum(opened, close) * (1 - WICK),
        close=close,
        volume=np.ones_like(close),
        findings=Findings(
            source=PREFIX + name, dialect="made by a formula", time_unit="hours", time_zone="UTC"
        ),
    )
    features = np.stack([signal, returns / NOISE], axis=1).astype(np.float32)
    names = ("signal", "last_return")
    return MarketData(
        name=PREFIX + name,
        bars=bars,
        features=features,
        feature_names=names,
        periods_per_year=periods_per_year(bars.timestamp),
        default_fill=bars.default_fill,
        data_hash=content_hash(bars, names, features),
    )
