"""A learner that the training before has left behaves like a new one, and leaves nothing behind itself."""

import gc
import math
from dataclasses import replace
from typing import get_args

import pytest
import torch
from learner_states import assert_same, take, trained

from trainer.config import TrainerConfig
from trainer.config.trainer_config import known_names
from trainer.data.market import load_market
from trainer.errors import ConfigError, NonFiniteError
from trainer.hyperparameters import STRATEGIES, Hyperparameters, member_keys
from trainer.training import Training
from trainer.warm_learner import RUN_KEYS, LearnerCache
from trainer.warm_trainings import WarmTrainings

SMALL = {
    "data.path": "synthetic:known_answer:240:3",
    "folds": 2,
    "min_folds": 1,
    "trunk_widths": (8, 8),
    "head_width": 4,
    "num_atoms": 5,
    "batch_size": 9,
    "episodes": 2,
    "episode_length": 8,
    "capacity": 24,
    "updates": 3,
    "epochs": 2,
    "her_ratio": 0.4,
    "checkpoint_seconds": 1e9,
}
OTHER = {
    "iql_expectile_tau": 0.9,
    "iql_advantage_temperature": 20.0,
    "her_ratio": 0.8,
    "her_strategy": "random",
    "learning_rate": 3e-3,
    "gamma": 0.5,
    "reward": "return",
    "fee_bp": 9.0,
    "seed": 11,
}
KEYS = {f"{section}.{key}" for section, key in known_names().values()}


def small(**overrides):
    return TrainerConfig.build({}).with_overrides({**SMALL, **overrides})


@pytest.fixture(scope="module")
def market():
    return load_market(small())


def another(key):
    """The small configuration with another legal value of ``key``."""
    section, _, name = key.partition(".")
    field = type(getattr(small(), section)).model_fields[name]
    old = small().get(key)
    words = [each for each in get_args(field.annotation) if isinstance(each, str)]
    numbers = [] if words or not isinstance(old, int | float) else [old / 2 + 0.1, old + 1, old - 1]
    for value in [*words, *numbers, 250.0]:
        try:
            if value != old:
                return small(**{key: value})
        except ConfigError:
            continue
    raise AssertionError(f"no other value of {key}")


@pytest.mark.parametrize("key", sorted(member_keys() | RUN_KEYS))
def test_another_value_of_a_key_outside_the_shape_needs_no_new_learner_and_counts_in_full(key, market):
    cache, config = LearnerCache(), another(key)
    assert config != small()
    first = take(cache, small(), market)
    trained(first.learner, small())
    second = take(cache, config, market)
    assert second.reused
    assert second.learner is first.learner
    assert_same(
        trained(second.learner, config), trained(take(LearnerCache(), config, market).learner, config)
    )


def test_the_per_member_keys_are_exactly_those_that_no_shape_and_no_kernel_depends_on():
    assert member_keys() == {
        *(f"agent.{key}" for key in ("iql_expectile_tau", "iql_advantage_temperature", "gamma")),
        *(f"agent.{key}" for key in ("learning_rate", "adam_beta1", "adam_beta2", "adam_eps")),
        *(f"agent.{key}" for key in ("weight_decay", "max_norm", "polyak_tau", "v_min", "v_max")),
        *("replay.per_alpha", "replay.per_beta"),
        *(f"hindsight.her_{key}" for key in ("ratio", "strategy", "future_offset", "threshold", "weight")),
        *(f"environment.{key}" for key in ("reward", "adaptation_rate", "fee_bp", "half_spread_bp")),
        *(f"environment.{key}" for key in ("slippage_bp", "impact", "participation")),
    }
    assert member_keys() | RUN_KEYS < KEYS
    assert not member_keys() & RUN_KEYS


def test_an_array_holds_what_its_keys_say():
    configs = [small(), small(**OTHER, her_weight="one", slippage_bp=3.0)]
    hyper = Hyperparameters.stack(configs, torch.float64, torch.device("cpu"))
    assert hyper.expectile.tolist() == [0.7, 0.9]
    assert hyper.total_updates.tolist() == [6.0, 6.0]
    assert hyper.her_size.tolist() == [3, 7]
    assert hyper.her_size.dtype == hyper.her_strategy.dtype == torch.int32
    assert hyper.her_strategy.tolist() == [STRATEGIES.index("future"), STRATEGIES.index("random")]
    assert hyper.her_weight_one.tolist() == hyper.reward_is_return.tolist() == [False, True]
    assert hyper.maker_cost.tolist() == [1e-4, pytest.approx(9e-4)]
    assert hyper.taker_cost.tolist() == [2e-4, pytest.approx(13e-4)]


@pytest.mark.parametrize("shape", [{"use_iql": False}, {"seeds": 2}, {"dtype": "float64"}])
def test_many_trainings_in_a_row_equal_new_ones_bit_for_bit(shape, market):
    cache = LearnerCache()
    for change in ({}, OTHER, {"her_ratio": 0.0}, {}, {**OTHER, "her_strategy": "episode"}):
        config = small(**shape, **change)
        taken = take(cache, config, market)
        fresh = take(LearnerCache(), config, market)
        assert not fresh.reused
        assert_same(trained(taken.learner, config), trained(fresh.learner, config))
    assert taken.reused


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agent.use_iql", False),
        ("agent.batch_size", 8),
        ("agent.trunk_widths", (8, 9)),
        ("agent.num_atoms", 7),
        ("replay.capacity", 25),
        ("environment.episode_length", 9),
        ("environment.fill", "next_close"),
        ("goal.eval", 0.5),
        ("hindsight.achieved_offset", 0),
        ("walk_forward.purge", 3),
        ("training.seeds", 2),
        ("training.dtype", "float64"),
        ("training.steps_per_replay", 4),
        ("training.max_skipped_steps", 3),
        ("training.check_finite", True),
    ],
)
def test_another_shape_is_built_anew(key, value, market):
    cache = LearnerCache()
    first = take(cache, small(), market)
    config = small(**{key: value})
    second = take(cache, config, market)
    assert not second.reused
    assert second.learner is not first.learner
    assert_same(
        trained(second.learner, config), trained(take(LearnerCache(), config, market).learner, config)
    )


def test_other_data_is_another_shape(market):
    cache = LearnerCache()
    take(cache, small(), market)
    assert not take(cache, small(), replace(market, data_hash="e" * 64)).reused


def test_a_learner_that_failed_is_as_good_as_new_after_a_reset(market):
    cache, broken = LearnerCache(), small(max_skipped_steps=0)
    first = take(cache, broken, market).learner
    first.collect()
    first.learn(2)
    state = first.state_dict()
    state["agent"]["q"][1] = math.nan
    first.load_state_dict(state)
    with pytest.raises(NonFiniteError):
        first.learn(2)
    second = take(cache, broken, market).learner
    assert second is first
    assert_same(trained(second, broken), trained(take(LearnerCache(), broken, market).learner, broken))


def without_seconds(reports):
    return [{**report.to_dict(), "seconds": 0.0} for report in reports]


def test_trainings_of_one_process_hand_on_their_learner_and_report_what_a_lone_one_reports(tmp_path, market):
    trainings = WarmTrainings()
    warm = []
    for number, config in enumerate((small(), small(**OTHER), small(batch_size=5), small(**OTHER))):
        training = trainings(config, market, tmp_path / str(number))
        alone = Training(config, market, tmp_path / f"alone {number}")
        while not training.finished:
            training.run_epoch()
            alone.run_epoch()
        ours, theirs = training.finish(), alone.finish()
        assert without_seconds(ours.reports) == without_seconds(theirs.reports)
        warm.append(training.warm)
        training.close()
    assert warm == [False, True, False, False]


def test_a_warm_training_resumes_from_a_checkpoint_bit_for_bit(tmp_path, market):
    whole, config = Training(small(), market, tmp_path / "whole"), small()
    whole.run_epoch()
    whole.run_epoch()
    part = Training(config, market, tmp_path / "part")
    part.run_epoch()
    part.save()
    trainings = WarmTrainings()
    other = trainings(small(**OTHER), market, tmp_path / "other")
    other.run_epoch()
    resumed = trainings(config, market, tmp_path / "part", resume=True)
    assert resumed.warm
    resumed.run_epoch()
    assert without_seconds(resumed.reports) == without_seconds(whole.reports)


def tensors():
    """How many tensors live, and the bytes of their memory."""
    gc.collect()
    found = [each for each in gc.get_objects() if type(each) is torch.Tensor]
    storages = {each.untyped_storage()._cdata: each.untyped_storage().nbytes() for each in found}
    return len(found), sum(storages.values())


def test_thirty_trainings_in_a_row_leave_no_more_tensors_than_one(tmp_path, market):
    trainings = WarmTrainings()

    def run(number):
        config = small(**{**(OTHER if number % 2 else {}), "seed": number})
        training = trainings(config, market, tmp_path)
        training.run_epoch()
        training.close()
        return training.warm

    run(0)
    before = tensors()
    assert all(run(number) for number in range(1, 31))
    assert tensors() == before


def test_a_learner_of_another_shape_replaces_the_old_one_in_memory(tmp_path, market):
    trainings = WarmTrainings()

    def run(capacity):
        trainings(small(capacity=capacity), market, tmp_path).run_epoch()

    seen = []
    for capacity in (24, 4096, 24, 4096, 24):
        run(capacity)
        seen.append(tensors())
    assert seen[0] == seen[2] == seen[4]
    assert seen[1] == seen[3] != seen[0]
