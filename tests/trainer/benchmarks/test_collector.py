"""The collector's table: what a step is, and the slow rows of it on the CPU."""

import pytest
import torch

from trainer.benchmarks import collector
from trainer.benchmarks.collector import CollectionRates, Stack, plain_rate, reference_rate
from trainer.benchmarks.markdown import markdown_table
from trainer.config import TrainerConfig
from trainer.data.market import load_market

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def market():
    return load_market(TrainerConfig().with_overrides({"data.path": "synthetic:known_answer:1000:1"}))


@pytest.mark.parametrize(("members", "lanes"), collector.STACKS)
def test_every_stack_has_16384_lanes_and_rings_of_one_collection(market, members, lanes):
    stack = Stack.of(market, members, lanes, "bf16", CPU)
    assert members * lanes == 16_384
    assert stack.steps == 16_384 * collector.LENGTH
    assert stack.config.replay.capacity == lanes * collector.LENGTH


def test_the_reference_and_plain_pytorch_collect_on_any_device(market, monkeypatch):
    calls = []

    def seconds(run, repeats):
        run()
        calls.append(repeats)
        return 2.0

    monkeypatch.setattr(collector, "wall_seconds", seconds)
    stack = Stack.of(market, 2, 4, "fp32", CPU)
    assert reference_rate(stack) == 2 * 4 * collector.LENGTH / 2.0
    assert plain_rate(stack) == 4 * collector.LENGTH / 2.0
    assert calls == [collector.SLOW_REPEATS] * 2


def test_rates_are_shown_in_millions_below_as_many_headings():
    cells = CollectionRates((93.4e6, 61e6), 0.0523e6, 4.2e6).cells()
    assert cells == ["93.4", "61", "0.0523", "4.2"]
    assert markdown_table(collector.HEAD, [["1", "16,384", *cells]]).count("\n") == 2


@pytest.mark.gpu
def test_the_table_measures_every_way_of_collecting(monkeypatch):
    monkeypatch.setattr(collector, "STACKS", ((2, 16),))
    monkeypatch.setattr(collector, "SLOW_REPEATS", 1)
    cells = collector.table().splitlines()[2].strip("| ").split(" | ")
    assert cells[:2] == ["2", "16"]
    assert all(float(cell) > 0.0 for cell in cells[2:])


@pytest.mark.gpu
def test_a_fused_collection_fills_the_rings(market):
    learner = Stack.of(market, 2, 16, "bf16", torch.device("cuda")).learner(fused=True)
    learner.collect()
    stored = learner.state_dict()["replay"]["written"]
    assert int(stored) == 16 * collector.LENGTH
