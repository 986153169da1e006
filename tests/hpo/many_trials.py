"""A search of many stub trials, with what the driver needed for each: for the tests and for `make soak`."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import psutil
from fake_training import FakeMarket

from hpo.config import SearchConfig
from hpo.ledger import Started, StudyLedger
from hpo.outcome import SearchOutcome
from hpo.tuner import tune
from search_spaces import packaged

MIB = 2**20
MOST_GROWTH_MIB = 0.2  # a trial
COLLECT_EVERY = 20  # trials, so that garbage which waits for its collection is not taken for growth


@dataclass(frozen=True)
class ManyTrials:
    """What a search of many trials cost.

    Attributes:
        outcome: How it ended.
        ask_seconds: Of the driver, to find the parameters of each trial in turn.
        memory_mib: Of the driver, when each trial was asked for.
        seconds: Wall time.
    """

    outcome: SearchOutcome
    ask_seconds: list[float]
    memory_mib: list[float]
    seconds: float


def search_many(search: SearchConfig) -> ManyTrials:
    """Runs stub trials of no length through searcher, scheduler, ledger, study and Ray's processes."""
    asks: list[float] = []
    memory: list[float] = []
    start = StudyLedger.start

    def watched(ledger: StudyLedger, key: str) -> Started | None:
        if len(memory) % COLLECT_EVERY == 0:
            gc.collect()
        memory.append(psutil.Process().memory_info().rss / MIB)
        began = time.perf_counter()
        try:
            return start(ledger, key)
        finally:
            asks.append(time.perf_counter() - began)

    began = time.monotonic()
    StudyLedger.start = watched  # type: ignore[method-assign]
    try:
        outcome = tune(
            search, packaged()[search.space], market=FakeMarket(), training="fake_training:FakeTraining"
        )
    finally:
        StudyLedger.start = start  # type: ignore[method-assign]
    return ManyTrials(outcome, asks, memory, time.monotonic() - began)


def slope(values: Sequence[float], warm_up: int) -> float:
    """Growth per item by least squares, without the first ``warm_up`` ones."""
    rest = np.asarray(values[warm_up:])
    return float(np.polyfit(np.arange(rest.size), rest, 1)[0])
