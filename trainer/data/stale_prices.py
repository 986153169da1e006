"""Stale prices: bars that repeat the bar before, because a feed stood still or a pause was filled.

Files of currencies often fill the weekend with the last price, and a broken feed repeats its last bar. Such
bars count as time and as returns of 0, so that they lower volatility and change what a year of bars is.
"""

from __future__ import annotations

import numpy as np

from trainer.data.bar_draft import BarDraft
from trainer.data.timestamps import written

SHORTEST_RUN = 10  # repeats in a row; shorter ones are a market without trades


def stale_warnings(draft: BarDraft) -> tuple[str, ...]:
    """Returns one sentence where open, high, low and close stay the same for long; empty otherwise.

    Args:
        draft: Checked bars in time order.
    """
    prices = np.stack([draft.open, draft.high, draft.low, draft.close])
    repeats = np.concatenate([[False], (prices[:, 1:] == prices[:, :-1]).all(axis=0), [False]])
    edges = np.flatnonzero(np.diff(repeats.astype(np.int8)))
    starts, stops = edges[::2], edges[1::2]  # repeats are the rows (start, stop]
    lengths = stops - starts
    long = lengths >= SHORTEST_RUN
    if not long.any():
        return ()
    first, last = int(starts[lengths.argmax()]), int(stops[lengths.argmax()])
    ends = f"{written(draft.timestamp[first])} to {written(draft.timestamp[last])}"
    lines = f"{draft.place}s {draft.line[first]} and {draft.line[last]}"
    return (
        f"{lengths[long].sum()} bars repeat the prices of the bar before, {SHORTEST_RUN} or more in a row, "
        f"the longest from {ends} ({lines}), as where a feed stood still or a pause was filled; leave such "
        "rows out unless the market was open",
    )
