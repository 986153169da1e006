"""The default market features: 48 causal columns, one documented entry each.

u is the price level: log(price) under percent returns, the price itself under difference returns, so
that negative prices are legal there. r is the one-bar change of the close's u, 0 on the first bar.
mean_w, sum_w, max_w, min_w run over the last w bars (fewer at the start). v_w = sqrt(mean_w r^2).
A ratio with a denominator of 0 is 0. No column looks past its own bar: features of the first t
bars equal the first t rows, bit for bit.

| name                | bars w                    | formula                                                |
| ------------------- | ------------------------- | ------------------------------------------------------ |
| return_w            | 1 2 4 8 16 32 64 128      | u_t - u_{t-w}                                          |
| momentum_w          | 4 8 16 32 64 128          | return_w / (v_w sqrt(w))                               |
| lagged_return_w     | 1 2                       | r_{t-w}                                                |
| volatility_w        | 8 32 128                  | v_w                                                    |
| volatility_ratio_w  | 4 16                      | v_w / v_{8w}                                           |
| downside_w          | 32                        | sum_w min(r, 0)^2 / sum_w r^2                          |
| range               |                           | u_high - u_low                                         |
| range_ratio_w       | 16                        | range / mean_w range                                   |
| close_location      |                           | (2 u_close - u_high - u_low) / range                   |
| body                |                           | u_close - u_open                                       |
| upper_shadow        |                           | (u_high - max(u_open, u_close)) / range                |
| lower_shadow        |                           | (min(u_open, u_close) - u_low) / range                 |
| gap                 |                           | u_open,t - u_close,t-1                                 |
| distance_w          | 4 8 16 32 64 128          | u - mean_w u                                           |
| crossing            | 8, 32                     | (mean_8 u - mean_32 u) / v_32                          |
| strength_w          | 8 32                      | sum_w r / sum_w abs(r); Cutler's relative strength     |
| channel_w           | 16 64                     | (u_close - min_w u_low) / (max_w u_high - min_w u_low) |
| drawdown_w          | 128                       | u_close - max_w u_high                                 |
| volume_ratio_w      | 3 32                      | volume / mean_w volume                                 |
| volume_flow_w       | 16                        | sum_w sign(r) volume / sum_w volume                    |
| day_sin, day_cos    |                           | 2 pi minute of the UTC day / 1440                      |
| week_sin, week_cos  |                           | 2 pi weekday / 7                                       |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainer.data.bars import Bars
from trainer.data.rolling import (
    change_over,
    delayed,
    ratio,
    rolling_max,
    rolling_mean,
    rolling_min,
    rolling_sum,
)

Floats = NDArray[np.float64]
Column = tuple[str, Floats]

FEATURE_VERSION = 1  # part of the data hash; raise it with any change of a formula
WARM_UP = 128  # bars before the first whose windows are all full
RETURN_WINDOWS = (1, 2, 4, 8, 16, 32, 64, 128)
TREND_WINDOWS = (4, 8, 16, 32, 64, 128)
FEATURE_NAMES: tuple[str, ...] = (
    *(f"return_{w}" for w in RETURN_WINDOWS),
    *(f"momentum_{w}" for w in TREND_WINDOWS),
    *("lagged_return_1", "lagged_return_2"),
    *("volatility_8", "volatility_32", "volatility_128"),
    *("volatility_ratio_4", "volatility_ratio_16", "downside_32"),
    *("range", "range_ratio_16", "close_location", "body", "upper_shadow", "lower_shadow", "gap"),
    *(f"distance_{w}" for w in TREND_WINDOWS),
    *("crossing", "strength_8", "strength_32", "channel_16", "channel_64", "drawdown_128"),
    *("volume_ratio_3", "volume_ratio_32", "volume_flow_16"),
    *("day_sin", "day_cos", "week_sin", "week_cos"),
)

MINUTE = 60 * 10**9  # ns
DAY = 1440 * MINUTE
EPOCH_WEEKDAY = 3  # 1970-01-01 was a Thursday; Monday is 0


@dataclass(frozen=True)
class Levels:
    """Price levels u and the one-bar change r, each [N] float64."""

    open: Floats
    high: Floats
    low: Floats
    close: Floats
    change: Floats


def build_features(bars: Bars) -> NDArray[np.float32]:
    """Returns the table [N, 48] float32 in the order of FEATURE_NAMES; finite for any valid bars."""
    table = np.empty((len(bars), len(FEATURE_NAMES)), dtype=np.float32)
    if len(bars) == 0:
        return table
    levels = _levels(bars)
    position = {name: column for column, name in enumerate(FEATURE_NAMES)}
    for columns in (_trend(levels), _volatility(levels), _shape(levels), _oscillators(levels)):
        for name, values in columns:
            table[:, position[name]] = values
    for name, values in (*_volume(levels, bars.volume), *_calendar(bars.timestamp)):
        table[:, position[name]] = values
    return table


def _levels(bars: Bars) -> Levels:
    def level(price: Floats) -> Floats:
        contiguous = np.ascontiguousarray(price)
        return np.log(contiguous) if bars.returns == "percent" else contiguous

    close = level(bars.close)
    return Levels(level(bars.open), level(bars.high), level(bars.low), close, change_over(close, 1))


def _root_mean_square(change: Floats, window: int) -> Floats:
    return np.sqrt(rolling_mean(change * change, window))


def _trend(levels: Levels) -> Iterator[Column]:
    u = levels.close
    for window in RETURN_WINDOWS:
        yield f"return_{window}", change_over(u, window)
    for window in TREND_WINDOWS:
        noise = _root_mean_square(levels.change, window) * np.sqrt(window)
        yield f"momentum_{window}", ratio(change_over(u, window), noise)
        yield f"distance_{window}", u - rolling_mean(u, window)
    for window in (1, 2):
        yield f"lagged_return_{window}", delayed(levels.change, window)
    crossing = rolling_mean(u, 8) - rolling_mean(u, 32)
    yield "crossing", ratio(crossing, _root_mean_square(levels.change, 32))


def _volatility(levels: Levels) -> Iterator[Column]:
    for window in (8, 32, 128):
        yield f"volatility_{window}", _root_mean_square(levels.change, window)
    for window in (4, 16):
        short, long = (_root_mean_square(levels.change, w) for w in (window, 8 * window))
        yield f"volatility_ratio_{window}", ratio(short, long)
    losses = np.minimum(levels.change, 0)
    total = rolling_sum(levels.change * levels.change, 32)
    yield "downside_32", ratio(rolling_sum(losses * losses, 32), total)


def _shape(levels: Levels) -> Iterator[Column]:
    span = levels.high - levels.low
    top, bottom = np.maximum(levels.open, levels.close), np.minimum(levels.open, levels.close)
    yield "range", span
    yield "range_ratio_16", ratio(span, rolling_mean(span, 16))
    yield "close_location", ratio((levels.close - levels.high) + (levels.close - levels.low), span)
    yield "body", levels.close - levels.open
    yield "upper_shadow", ratio(levels.high - top, span)
    yield "lower_shadow", ratio(bottom - levels.low, span)
    yield "gap", levels.open - delayed(levels.close, 1, fill=float(levels.open[0]))


def _oscillators(levels: Levels) -> Iterator[Column]:
    for window in (8, 32):
        moved = rolling_sum(np.abs(levels.change), window)
        yield f"strength_{window}", ratio(rolling_sum(levels.change, window), moved)
    for window in (16, 64):
        low = rolling_min(levels.low, window)
        yield f"channel_{window}", ratio(levels.close - low, rolling_max(levels.high, window) - low)
    yield "drawdown_128", levels.close - rolling_max(levels.high, 128)


def volume_ratio(volume: Floats, window: int) -> Floats:
    """Returns volume / mean of the last ``window`` volumes, 0 where nothing was traded. Shapes [N]."""
    return ratio(volume, rolling_mean(volume, window))


def _volume(levels: Levels, volume: Floats) -> Iterator[Column]:
    for window in (3, 32):
        yield f"volume_ratio_{window}", volume_ratio(volume, window)
    signed = rolling_sum(np.sign(levels.change) * volume, 16)
    yield "volume_flow_16", ratio(signed, rolling_sum(volume, 16))


def _calendar(timestamp: NDArray[np.int64]) -> Iterator[Column]:
    minute = (timestamp % DAY) // MINUTE
    weekday = (timestamp // DAY + EPOCH_WEEKDAY) % 7
    for name, cell, cells in (("day", minute, 1440), ("week", weekday, 7)):
        angle = 2 * np.pi * np.arange(cells) / cells
        yield f"{name}_sin", np.sin(angle)[cell]
        yield f"{name}_cos", np.cos(angle)[cell]
