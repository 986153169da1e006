"""Hyperparameters: every searched scalar as a per-member value on the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from trainer.config import TrainerConfig

STRATEGIES = ("final", "future", "episode", "random")
BASIS_POINT = 1e-4


@dataclass(frozen=True)
class Hyperparameters:
    """Arrays of shape [M]; a new trial of the same shapes only overwrites their values."""

    expectile: Tensor  # float, IQL tau of V_high; V_low uses 1 - tau
    inverse_temperature: Tensor  # float, beta of the advantage-weighted policy
    gamma: Tensor  # float
    learning_rate: Tensor  # float
    adam_beta1: Tensor  # float
    adam_beta2: Tensor  # float
    adam_eps: Tensor  # float
    weight_decay: Tensor  # float
    max_norm: Tensor  # float
    polyak_tau: Tensor  # float
    v_min: Tensor  # float
    v_max: Tensor  # float
    per_alpha: Tensor  # float
    per_beta: Tensor  # float, at step 0
    total_updates: Tensor  # float, gradient steps until per_beta reaches 1
    her_size: Tensor  # int32, relabelled rows of a batch, floor(B her_ratio + 1e-6)
    her_strategy: Tensor  # int32, index into STRATEGIES
    her_future_offset: Tensor  # int32
    her_threshold: Tensor  # float
    her_weight_one: Tensor  # bool, relabelled rows weigh 1
    reward_is_return: Tensor  # bool, return / sigma instead of the differential Sharpe ratio
    adaptation_rate: Tensor  # float, eta
    maker_cost: Tensor  # float, fraction of traded value paid by a limit fill: fee
    taker_cost: Tensor  # float, paid by a market fill: fee + half spread + slippage

    @classmethod
    def stack(
        cls, configs: Sequence[TrainerConfig], dtype: torch.dtype, device: torch.device
    ) -> Hyperparameters:
        """Stacks one configuration per member along the leading axis."""

        def real(values: Sequence[float]) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=device)

        def whole(values: Sequence[int]) -> Tensor:
            return torch.tensor(values, dtype=torch.int32, device=device)

        def flag(values: Sequence[bool]) -> Tensor:
            return torch.tensor(values, dtype=torch.bool, device=device)

        agents = [config.agent for config in configs]
        hindsight = [config.hindsight for config in configs]
        replays = [config.replay for config in configs]
        environments = [config.environment for config in configs]
        return cls(
            expectile=real([agent.iql_expectile_tau for agent in agents]),
            inverse_temperature=real([agent.iql_advantage_temperature for agent in agents]),
            gamma=real([agent.gamma for agent in agents]),
            learning_rate=real([agent.learning_rate for agent in agents]),
            adam_beta1=real([agent.adam_beta1 for agent in agents]),
            adam_beta2=real([agent.adam_beta2 for agent in agents]),
            adam_eps=real([agent.adam_eps for agent in agents]),
            weight_decay=real([agent.weight_decay for agent in agents]),
            max_norm=real([agent.max_norm for agent in agents]),
            polyak_tau=real([agent.polyak_tau for agent in agents]),
            v_min=real([agent.v_min for agent in agents]),
            v_max=real([agent.v_max for agent in agents]),
            per_alpha=real([replay.per_alpha for replay in replays]),
            per_beta=real([replay.per_beta for replay in replays]),
            total_updates=real([config.training.epochs * config.training.updates for config in configs]),
            her_size=whole([_her_size(config) for config in configs]),
            her_strategy=whole([STRATEGIES.index(each.her_strategy) for each in hindsight]),
            her_future_offset=whole([each.her_future_offset for each in hindsight]),
            her_threshold=real([each.her_threshold for each in hindsight]),
            her_weight_one=flag([each.her_weight == "one" for each in hindsight]),
            reward_is_return=flag([each.reward == "return" for each in environments]),
            adaptation_rate=real([each.adaptation_rate for each in environments]),
            maker_cost=real([each.fee_bp * BASIS_POINT for each in environments]),
            taker_cost=real(
                [
                    (each.fee_bp + each.half_spread_bp + each.slippage_bp) * BASIS_POINT
                    for each in environments
                ]
            ),
        )

    def copy_(self, other: Hyperparameters) -> None:
        """Overwrites every array in place, keeping addresses (a captured graph sees the new values)."""
        for field in fields(self):
            getattr(self, field.name).copy_(getattr(other, field.name))


def _her_size(config: TrainerConfig) -> int:
    return math.floor(config.agent.batch_size * config.hindsight.her_ratio + 1e-6)
