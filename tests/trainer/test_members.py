import pytest
import torch

from trainer.config import TrainerConfig
from trainer.hyperparameters import STRATEGIES, Hyperparameters
from trainer.members import Member, keys_of, members_of

CPU = torch.device("cpu")


def stack(*overrides, dtype=torch.float32):
    base = TrainerConfig.build({})
    return Hyperparameters.stack([base.with_overrides(each) for each in overrides], dtype, CPU)


def test_members_run_over_folds_within_seeds():
    config = TrainerConfig.build({"training": {"seed": 5, "seeds": 2}})
    assert members_of(config, 3) == tuple(Member(seed, fold) for seed in (5, 6) for fold in range(3))
    assert keys_of(members_of(config, 2), CPU).tolist() == [[5, 0], [5, 1], [6, 0], [6, 1]]


def test_members_of_different_configurations_stand_in_one_stack():
    hyper = stack({"gamma": 0.9, "her_strategy": "final"}, {"gamma": 0.5, "her_strategy": "random"})
    assert hyper.gamma.tolist() == [torch.tensor(0.9).item(), 0.5]
    assert [STRATEGIES[index] for index in hyper.her_strategy.tolist()] == ["final", "random"]


def test_the_number_of_relabelled_rows_is_rounded_down_but_not_for_rounding_errors():
    ratios = (0.0, 0.1, 0.3, 0.7, 0.8, 1.0)
    hyper = stack(*({"batch_size": 10, "her_ratio": ratio} for ratio in ratios))
    assert hyper.her_size.tolist() == [0, 1, 3, 7, 8, 10]
    assert stack({"batch_size": 33, "her_ratio": 0.8}).her_size.tolist() == [26]
    assert stack({"batch_size": 32, "her_ratio": 0.8}).her_size.tolist() == [25]


def test_a_limit_order_pays_the_fee_and_a_market_order_everything():
    hyper = stack({"fee_bp": 1.0, "half_spread_bp": 2.0, "slippage_bp": 4.0}, dtype=torch.float64)
    assert hyper.maker_cost.tolist() == [1e-4]
    assert hyper.taker_cost.tolist() == [7e-4]


def test_impact_is_its_coefficient_times_the_root_of_the_participation():
    hyper = stack({"impact": 0.5, "participation": 0.04}, {}, dtype=torch.float64)
    assert hyper.impact.tolist() == pytest.approx([0.1, 0.0], abs=1e-15)


def test_new_values_are_copied_in_place():
    hyper, other = stack({"gamma": 0.9}), stack({"gamma": 0.1})
    address = hyper.gamma.data_ptr()
    hyper.copy_(other)
    assert hyper.gamma.data_ptr() == address
    assert torch.equal(hyper.gamma, other.gamma)
