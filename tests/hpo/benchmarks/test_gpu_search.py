"""The comparison of searches on GPUs: its arithmetic by literals, and one search and one peer on the CPU."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import torch
from optuna.trial import FrozenTrial, TrialState, create_trial

from hpo.benchmarks import gpu_search
from hpo.benchmarks.gpu_search import ONE, TWO, USUAL, Plan, report, run_search, search_config
from hpo.benchmarks.memory_watch import MemoryWatch
from hpo.benchmarks.search_figures import (
    DeviceTrials,
    SearchFigures,
    figures_of_processes,
    figures_of_search,
    ratios,
    table,
)
from hpo.gpus.nvml import Memory
from hpo.gpus.resources import Gpu
from trainer.benchmarks.peer_torch_process import train
from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.errors import ConfigError

BEGIN = datetime(2024, 5, 1, 12, 0, 0)
UNWATCHED = MemoryWatch((), None)
MIB = 2**20
TINY = {
    "data.path": "synthetic:known_answer:600:1",
    "folds": 3,
    "seeds": 1,
    "epochs": 1,
    "updates": 2,
    "batch_size": 16,
    "trunk_widths": "16x16",
    "head_width": 16,
    "episodes": 4,
    "episode_length": 16,
    "backend": "reference",
    "her_ratio": 0.4,
}


def trial(number: int, gpu: str, start: float, first_epoch: float, stop: float, used: int) -> FrozenTrial:
    """Times in seconds from BEGIN; every trial but the first of a GPU starts warm."""
    attributes = {
        "machine": {"host": "node", "gpu": f"NVIDIA H200 GPU-{gpu}", "versions": {}},
        "setup_seconds": first_epoch - start,
        "warm": number > 1,
        "first_epoch_at": (BEGIN + timedelta(seconds=first_epoch)).timestamp(),
        "gpu_used_mib": used,
    }
    made = create_trial(value=1.0, user_attrs=attributes)
    made.number = number
    made.datetime_start = BEGIN + timedelta(seconds=start)
    made.datetime_complete = BEGIN + timedelta(seconds=stop)
    return made


A, B = "aaaaaaaa-1111", "bbbbbbbb-2222"
SIX = [
    trial(0, A, 0, 10, 12, 900),
    trial(1, B, 1, 11, 13, 910),
    trial(2, A, 12, 12.25, 14, 900),
    trial(3, B, 13, 13.5, 15, 910),
    trial(4, A, 14, 14.25, 16, 920),
    trial(5, A, 16, 17, 18, 930),
]


def test_a_search_is_measured_from_its_first_start_to_its_last_end():
    figures = figures_of_search("two", SIX, UNWATCHED)
    assert (figures.trials, figures.seconds, figures.warm) == (6, 18.0, 4)
    assert figures.hourly == 1200.0
    assert figures.hourly_per_gpu == 600.0
    assert figures.gaps == (0.25, 0.5, 0.25, 1.0)
    assert figures.changes == 4  # 0-1, 1-2, 2-3, 3-4; 4 and 5 share a GPU


def test_without_the_first_trials_each_gpu_counts_from_the_end_of_its_own():
    figures = figures_of_search("two", SIX, UNWATCHED)
    assert figures.devices == (
        DeviceTrials("GPU-aaaaaaaa", 4, 6.0, (900, 930)),
        DeviceTrials("GPU-bbbbbbbb", 2, 2.0, (910, 910)),
    )
    assert figures.hourly_after_first == (3 * 3600 / 6 + 1 * 3600 / 2) / 2
    alone = figures_of_search("one", SIX[:1], UNWATCHED)
    assert math.isnan(alone.hourly_after_first)


def test_trials_that_are_not_complete_are_left_out():
    failed = in_state(SIX[5], TrialState.FAIL)
    assert figures_of_search("two", [*SIX[:5], failed], UNWATCHED).trials == 5
    with pytest.raises(ValueError, match="got 1 trial without one"):
        figures_of_search("two", [failed], UNWATCHED)


def in_state(source: FrozenTrial, state: TrialState) -> FrozenTrial:
    made = create_trial(state=state, user_attrs=source.user_attrs)
    made.number, made.datetime_start = source.number, source.datetime_start
    made.datetime_complete = source.datetime_complete
    return made


def test_the_gap_of_a_process_is_what_comes_before_its_training():
    figures = figures_of_processes("usual", f"GPU-{A}", [12.0, 10.0, 14.0], [6.0, 5.0, 6.5], UNWATCHED)
    assert figures.gaps == (6.0, 5.0, 7.5)
    assert figures.hourly == 300.0
    assert figures.hourly_after_first == 2 * 3600 / 24
    assert figures.devices[0].gpu == "GPU-aaaaaaaa"


def columns() -> tuple[SearchFigures, SearchFigures, SearchFigures]:
    two = dataclasses.replace(figures_of_search(TWO, SIX, UNWATCHED), memory=((4, 950, 4), (4, 940, 5)))
    one = figures_of_search(ONE, [SIX[0], SIX[2], SIX[4], SIX[5]], UNWATCHED)
    return two, one, figures_of_processes(USUAL, f"GPU-{A}", [12.0, 12.0], [6.0, 5.0], UNWATCHED)


def test_the_table_has_a_column_for_each_way():
    assert table(columns()).splitlines() == [
        "|  | two GPUs | one GPU | the usual way, one GPU |",
        "| --- | --- | --- | --- |",
        "| GPUs | 2 | 1 | 1 |",
        "| trials | 6 | 4 | 2 |",
        "| seconds from the first start to the last end | 18.0 | 18.0 | 24.0 |",
        "| trials an hour | 1200 | 800 | 300 |",
        "| trials an hour and GPU | 600 | 800 | 300 |",
        "| the same, each GPU's first trial left out | 1800 | 1800 | 300 |",
        "| median gap between two trials of a GPU, s | 0.38 | 0.25 | 6.50 |",
        "| largest gap, s | 1.00 | 1.00 | 7.00 |",
        "| warm trials | 4 of 6 | 3 of 4 | 0 of 2 |",
        "| trials of each GPU | GPU-aaaaaaaa: 4, GPU-bbbbbbbb: 2 | GPU-aaaaaaaa: 4 | GPU-aaaaaaaa: 2 |",
        "| neighbours in number on different GPUs | 4 of 5 | - | - |",
        "| GPU memory before / peak / after, MiB | 4 / 950 / 4; 4 / 940 / 5 | - | - |",
        "| GPU memory at its first / last trial's end, MiB | 900 / 930; 910 / 910 | 900 / 930 | - |",
    ]


def test_rates_are_compared_as_they_are_and_without_the_first_trials():
    assert ratios(*columns()) == (
        "two GPUs / one GPU: 1.50 in trials an hour, 2.00 with the first trials left out. "
        "one GPU / the usual way, one GPU: 2.7 in trials an hour and GPU, 6.0 with the first left out."
    )


def test_without_the_usual_way_the_searches_alone_are_compared():
    assert ratios(*columns()[:2]) == (
        "two GPUs / one GPU: 1.50 in trials an hour, 2.00 with the first trials left out."
    )


class Readings:
    """Stands for NVML: each question gets the next reading, the last one for ever."""

    def __init__(self, *used: int) -> None:
        self._left = list(used)

    def memory(self, uuid: str) -> Memory:
        used = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        return Memory(100 * MIB, 0, used * MIB)


def test_memory_is_read_before_and_after_the_work_once_it_has_been_freed():
    with MemoryWatch(("GPU-a",), Readings(4, 4, 70, 30, 4), settling=5.0) as watch:  # type: ignore[arg-type]
        limit = time.monotonic() + 10
        while watch.peak != (70,) and time.monotonic() < limit:
            time.sleep(0.01)
    assert (watch.before, watch.peak, watch.after) == ((4,), (70,), (4,))


def test_memory_that_is_never_freed_is_told():
    with MemoryWatch(("GPU-a",), Readings(4, 4, 70), settling=0.1) as watch:  # type: ignore[arg-type]
        pass
    assert (watch.before, watch.after) == ((4,), (70,))


def test_the_peer_trains_every_member_for_every_epoch():
    config = TrainerConfig().with_overrides({**TINY, "seeds": 2, "epochs": 2})
    run = train(config, load_market(config), torch.device("cpu"))
    assert (run.members, run.steps) == (6, 24)
    assert run.bars == 2 * 2 * sum(fold - 1 for fold in windows(config))
    assert math.isfinite(run.sharpe)


def windows(config: TrainerConfig) -> list[int]:
    from trainer.folds import split

    return [each.test_stop - each.test_start for each in split(600, config.walk_forward).folds]


def test_a_search_in_its_own_process_ends_with_its_trials_complete(tmp_path: Path):
    plan = Plan(TrainerConfig().with_overrides(TINY), gpus=0)
    done = run_search(search_config(plan, tmp_path, "two", trials=4, concurrent=2))
    figures = figures_of_search(TWO, done, UNWATCHED)
    assert (figures.trials, [each.gpu for each in figures.devices]) == (4, ["none"])
    assert figures.warm in (2, 3)  # the first trial of each process is cold, and the second may start late
    assert len(figures.gaps) in (2, 3)


def test_the_columns_come_from_three_searches_and_the_processes(monkeypatch, tmp_path: Path):
    started: list[tuple[str, int, int, str | None]] = []

    def search(config, visible=None):
        started.append((config.study, config.trials, config.concurrent, visible))
        return SIX[:1] if config.study == "compile" else SIX

    def output(module, words, visible):
        assert json.loads(words)["training"]["seed"] in (0, 1)
        return 'a warning\n{"seconds": 0.0}\n'

    monkeypatch.setattr(gpu_search, "run_search", search)
    monkeypatch.setattr(gpu_search, "_output", output)
    gpus = [Gpu(0, "H200", "GPU-a"), Gpu(1, "H200", "GPU-b")]
    plan = Plan(TrainerConfig().with_overrides(TINY), trials=6, trials_on_one=5, processes=2)
    found = gpu_search.measure(plan, tmp_path, gpus, Readings(4))  # type: ignore[arg-type]
    assert started == [("compile", 1, 1, "GPU-a"), ("two", 6, 2, "GPU-a,GPU-b"), ("one", 5, 1, "GPU-a")]
    assert [each.name for each in found] == [TWO, ONE, USUAL]
    assert found[2].memory == ((4, 4, 4), (4, 4, 4))
    assert "3 folds x 1 seed, 1 epoch of 2 gradient steps at batch 16" in report(plan, found)
    assert "The usual way is eager PyTorch" in report(plan, found)
    without = dataclasses.replace(plan, processes=0)
    found = gpu_search.measure(without, tmp_path, gpus, Readings(4))  # type: ignore[arg-type]
    assert [each.name for each in found] == [TWO, ONE]
    assert "sual way" not in report(without, found)


def test_fewer_than_two_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(gpu_search, "visible_gpus", lambda: (Gpu(0, "H200", "GPU-a"),))
    with pytest.raises(ConfigError, match="1 GPU visible"):
        gpu_search.main([])
