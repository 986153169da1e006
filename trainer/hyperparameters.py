"""Hyperparameters: every searched scalar as a per-member value on the device."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_args, get_type_hints

import torch
from torch import Tensor

from trainer.config import TrainerConfig

STRATEGIES = ("final", "future", "episode", "random")
BASIS_POINT = 1e-4


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Source:
    """Where an array's values come from.

    Attributes:
        keys: ``section.name`` of the configuration keys that act on a training through this array alone.
        beside: Further keys that the value is computed from; they decide something else too.
        value: Of the keys' values, those of ``beside`` last.
        dtype: Of the array; None: the floating type of the training.
    """

    keys: tuple[str, ...]
    beside: tuple[str, ...] = ()
    value: Callable[..., Any] = _same
    dtype: torch.dtype | None = None

    def of(self, config: TrainerConfig) -> Any:
        """Returns one member's value."""
        return self.value(*(_looked_up(config, key) for key in (*self.keys, *self.beside)))


def _looked_up(config: TrainerConfig, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)


def _her_size(ratio: float, batch_size: int) -> int:
    return math.floor(batch_size * ratio + 1e-6)


def _maker_cost(fee: float) -> float:
    return fee * BASIS_POINT


def _taker_cost(half_spread: float, slippage: float, fee: float) -> float:
    return (fee + half_spread + slippage) * BASIS_POINT


def _impact(coefficient: float, participation: float) -> float:
    return coefficient * math.sqrt(participation)


@dataclass(frozen=True)
class Hyperparameters:
    """Arrays of shape [M]; a new trial of the same shapes only overwrites their values."""

    expectile: Annotated[Tensor, Source(("agent.iql_expectile_tau",))]  # of V_high; V_low uses 1 - tau
    inverse_temperature: Annotated[Tensor, Source(("agent.iql_advantage_temperature",))]  # beta, policy
    gamma: Annotated[Tensor, Source(("agent.gamma",))]
    learning_rate: Annotated[Tensor, Source(("agent.learning_rate",))]
    adam_beta1: Annotated[Tensor, Source(("agent.adam_beta1",))]
    adam_beta2: Annotated[Tensor, Source(("agent.adam_beta2",))]
    adam_eps: Annotated[Tensor, Source(("agent.adam_eps",))]
    weight_decay: Annotated[Tensor, Source(("agent.weight_decay",))]
    max_norm: Annotated[Tensor, Source(("agent.max_norm",))]
    polyak_tau: Annotated[Tensor, Source(("agent.polyak_tau",))]
    v_min: Annotated[Tensor, Source(("agent.v_min",))]
    v_max: Annotated[Tensor, Source(("agent.v_max",))]
    per_alpha: Annotated[Tensor, Source(("replay.per_alpha",))]
    per_beta: Annotated[Tensor, Source(("replay.per_beta",))]  # at step 0
    # gradient steps until per_beta reaches 1
    total_updates: Annotated[Tensor, Source((), ("training.epochs", "training.updates"), operator.mul)]
    # int32, relabelled rows of a batch, floor(B her_ratio + 1e-6)
    her_size: Annotated[
        Tensor, Source(("hindsight.her_ratio",), ("agent.batch_size",), _her_size, torch.int32)
    ]
    # int32, index into STRATEGIES
    her_strategy: Annotated[
        Tensor, Source(("hindsight.her_strategy",), value=STRATEGIES.index, dtype=torch.int32)
    ]
    her_future_offset: Annotated[Tensor, Source(("hindsight.her_future_offset",), dtype=torch.int32)]
    her_threshold: Annotated[Tensor, Source(("hindsight.her_threshold",))]
    # bool, relabelled rows weigh 1
    her_weight_one: Annotated[Tensor, Source(("hindsight.her_weight",), value="one".__eq__, dtype=torch.bool)]
    # bool, return / sigma instead of the differential Sharpe ratio
    reward_is_return: Annotated[
        Tensor, Source(("environment.reward",), value="return".__eq__, dtype=torch.bool)
    ]
    adaptation_rate: Annotated[Tensor, Source(("environment.adaptation_rate",))]  # eta
    # fraction of traded value paid by a limit fill: fee
    maker_cost: Annotated[Tensor, Source(("environment.fee_bp",), value=_maker_cost)]
    # paid by a market fill: fee + half spread + slippage
    taker_cost: Annotated[
        Tensor,
        Source(
            ("environment.half_spread_bp", "environment.slippage_bp"), ("environment.fee_bp",), _taker_cost
        ),
    ]
    # move of the price against a market fill of size 1, deviations of a bar
    impact: Annotated[Tensor, Source(("environment.impact", "environment.participation"), value=_impact)]

    @classmethod
    def stack(
        cls, configs: Sequence[TrainerConfig], dtype: torch.dtype, device: torch.device
    ) -> Hyperparameters:
        """Stacks one configuration per member along the leading axis."""

        def column(source: Source) -> Tensor:
            values = [source.of(config) for config in configs]
            return torch.tensor(values, dtype=source.dtype or dtype, device=device)

        return cls(**{name: column(source) for name, source in _sources().items()})

    def copy_(self, other: Hyperparameters) -> None:
        """Overwrites every array in place, keeping addresses (a captured graph sees the new values)."""
        for each in fields(self):
            getattr(self, each.name).copy_(getattr(other, each.name))


@functools.cache
def _sources() -> dict[str, Source]:
    hints = get_type_hints(Hyperparameters, include_extras=True)
    return {name: get_args(hint)[1] for name, hint in hints.items()}


def member_keys() -> frozenset[str]:
    """Returns ``section.name`` of every key that a training knows through :class:`Hyperparameters` alone.

    Such a key may change between two trainings whose shapes agree: it is a number in memory, in no buffer's
    size, in no kernel and in no captured graph.
    """
    return frozenset(key for source in _sources().values() for key in source.keys)
