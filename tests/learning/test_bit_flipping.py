"""Hindsight on eight bits: without relabelled goals the sparse reward is hardly ever seen."""

import numpy as np
import pytest

SEEDS = range(2)


@pytest.fixture
def bit_configs(proof_config):
    def build(**overrides):
        shared = {
            "gamma": 0.8,
            "learning_rate": 3e-3,
            "v_min": -1.0,
            "v_max": 3.0,
            "batch_size": 128,
            "polyak_tau": 0.05,
            "episode_length": 8,
            "her_strategy": "future",
        }
        return [
            proof_config(**shared, **overrides, her_ratio=ratio, seed=seed)
            for ratio in (0.8, 0.0)
            for seed in SEEDS
        ]

    return build


@pytest.mark.slow
def test_iql_learns_eight_bits_with_hindsight_and_hardly_without(bit_configs, train_on_bits, backend):
    rates = train_on_bits(bit_configs(use_iql=True), steps=3000, backend=backend)
    with_hindsight, without = np.mean(rates[:2]), np.mean(rates[2:])
    assert with_hindsight >= 0.5
    assert with_hindsight >= 3 * max(0.02, without)


@pytest.mark.slow
def test_double_dqn_learns_eight_bits_with_hindsight(bit_configs, train_on_bits, backend):
    rates = train_on_bits(bit_configs(use_iql=False), steps=1250, backend=backend)
    assert np.mean(rates[:2]) >= 0.8
