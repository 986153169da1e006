"""Warnings that refuse nothing."""

from dataclasses import replace

import pytest

from hpo.advice import configuration_advice, epoch_advice
from trainer.config import TrainerConfig
from trainer.reports import EpochReport, LearningReport, WalkForwardScore

LEARNING = LearningReport(
    critic_loss=1.0,
    value_loss=0.1,
    value_gap=0.1,
    gradient_norm=1.0,
    clipped_target_share=0.2,
    skipped_steps=0,
    first_moment=0.0,
    variance=1.0,
)
SCORE = WalkForwardScore(
    value=0.0,
    standard_error=0.1,
    per_seed=((0, 0.0),),
    seed_spread=0.0,
    folds=(),
    undefined_folds=0,
    degenerate=(),
    years=1.0,
)
REPORT = EpochReport(epoch=1, epochs=1, score=SCORE, learning=LEARNING, seconds=1.0)


def test_the_defaults_draw_no_warning():
    assert configuration_advice(TrainerConfig()) == []


@pytest.mark.parametrize(
    ("cost", "warned"), [(0, False), (0.001, True), (0.01, False), (1000, False), (1001, True)]
)
@pytest.mark.parametrize("key", ["fee_bp", "half_spread_bp", "slippage_bp"])
def test_a_cost_that_was_hardly_meant_in_basis_points_is_warned_of(key, cost, warned):
    assert bool(configuration_advice(TrainerConfig().with_overrides({key: cost}))) is warned


def test_the_warning_of_a_cost_says_what_it_is_in_percent():
    assert configuration_advice(TrainerConfig().with_overrides({"fee_bp": 0.001})) == [
        "warning: environment.fee_bp 0.001 is 1e-05 % of the traded value, because costs are basis points; "
        "10 are 0.1 %"
    ]


@pytest.mark.parametrize(("rate", "warned"), [(0.0099, False), (0.0101, True)])
def test_an_adaptation_rate_above_a_fifth_of_one_minus_gamma_is_warned_of(rate, warned):
    config = TrainerConfig().with_overrides({"gamma": 0.95, "adaptation_rate": rate})
    assert bool(configuration_advice(config)) is warned


def test_the_plain_return_reward_has_no_rate_to_warn_of():
    config = TrainerConfig().with_overrides({"adaptation_rate": 0.5, "reward": "return"})
    assert configuration_advice(config) == []


def test_more_than_a_fifth_of_clipped_targets_is_warned_of():
    assert epoch_advice(REPORT) == []
    clipped = replace(REPORT, learning=replace(LEARNING, clipped_target_share=0.31))
    assert epoch_advice(clipped) == [
        "warning: 31 % of the targets lie outside [agent.v_min, agent.v_max]; widen the support"
    ]
