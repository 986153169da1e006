"""What a learner holds, flattened, and taken from a cache: for tests that compare learners bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from trainer.backend import resolve_backend
from trainer.config import TrainerConfig
from trainer.data.market_data import MarketData
from trainer.folds import split
from trainer.market_learner import MarketLearner
from trainer.members import members_of
from trainer.warm_learner import LearnerCache, WarmLearner


def flat(state: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Copies of all tensors of a state on the CPU, by dotted name."""
    for name, value in state.items():
        if isinstance(value, Tensor):
            yield f"{prefix}{name}", value.to("cpu", copy=True)
        else:
            yield from flat(value, f"{prefix}{name}.")


def differing(left: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """Names of the tensors of two states that differ in a bit; the states must have the same names."""
    ours, theirs = dict(flat(left)), dict(flat(right))
    assert ours.keys() == theirs.keys()
    return [name for name in ours if not torch.equal(ours[name], theirs[name])]


def take(cache: LearnerCache, config: TrainerConfig, market: MarketData) -> WarmLearner:
    """What a training of ``config`` takes from ``cache``."""
    cut = split(len(market.bars), config.walk_forward)
    members = members_of(config, len(cut.folds))
    folds = tuple(cut.folds[member.fold] for member in members)
    return cache.take(config, market, folds, members, resolve_backend(config))


def trained(learner: MarketLearner, config: TrainerConfig) -> tuple[list[dict[str, Tensor]], list[Any]]:
    """Trains two epochs: states before the first and after each; moments, losses and the last returns."""
    states, rest = [dict(flat(learner.state_dict()))], [learner.moments()]
    for _ in range(2):
        learner.collect()
        learner.learn(config.training.updates)
        states.append(dict(flat(learner.state_dict())))
        rest += [learner.moments(), learner.means.read()]
    return states, [*rest, [each.returns.tolist() for each in learner.evaluate().members]]


def assert_same(ours: tuple[list[Any], list[Any]], theirs: tuple[list[Any], list[Any]]) -> None:
    """Compares two results of :func:`trained`, tensors bit for bit."""
    for left, right in zip(ours[0], theirs[0], strict=True):
        assert differing(left, right) == []
    assert ours[1] == theirs[1]
