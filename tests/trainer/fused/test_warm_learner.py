"""A fused learner serves training after training: nothing compiled or captured, not a bit changed."""

import os

import pytest
import torch
from learner_states import assert_same, take, trained

from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.warm_learner import LearnerCache, release_memory
from trainer.warm_trainings import WarmTrainings

pytestmark = pytest.mark.gpu

SMALL = {
    "data.path": "synthetic:known_answer:900:3",
    "folds": 2,
    "min_folds": 1,
    "seeds": 2,
    "trunk_widths": (32, 16),
    "head_width": 16,
    "batch_size": 32,
    "episodes": 8,
    "episode_length": 16,
    "capacity": 256,
    "updates": 19,
    "epochs": 2,
    "her_ratio": 0.4,
    "checkpoint_seconds": 1e9,
    "backend": "fused",
}
CHANGES = (
    {},
    {
        "iql_expectile_tau": 0.9,
        "iql_advantage_temperature": 20.0,
        "her_ratio": 0.8,
        "her_strategy": "random",
        "her_weight": "one",
        "learning_rate": 3e-3,
        "gamma": 0.5,
        "v_max": 4.0,
        "per_alpha": 0.2,
        "reward": "return",
        "fee_bp": 9.0,
        "seed": 11,
    },
    {"her_ratio": 0.0, "weight_decay": 0.0, "max_norm": 0.1},
    {"her_strategy": "episode", "adaptation_rate": 0.2, "polyak_tau": 0.1, "seed": 3},
    {"her_strategy": "final", "adam_beta1": 0.5, "her_threshold": 1.0},
    {},
)
MIB = 2**20


def small(**overrides):
    return TrainerConfig.build({}).with_overrides({**SMALL, **overrides})


@pytest.fixture(scope="module")
def market():
    return load_market(small())


@pytest.fixture
def captures(monkeypatch):
    """A list that grows by one at every capture of a CUDA graph."""
    made, begin = [], torch.cuda.CUDAGraph.capture_begin

    def counted(*args, **keys):
        made.append(1)
        return begin(*args, **keys)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", counted)
    return made


@pytest.mark.parametrize("shape", [{}, {"use_iql": False}, {"precision": "fp32", "cuda_graph": False}])
def test_later_trainings_equal_new_ones_bit_for_bit_and_compile_and_capture_nothing(shape, market, captures):
    from trainer.kernels.loader import builder

    cache, found = LearnerCache(), []
    for number, change in enumerate(CHANGES):
        config = small(**shape, **change)
        before = builder().compiled, len(captures)
        taken = take(cache, config, market)
        found.append(trained(taken.learner, config))
        if number > 0:
            assert taken.reused
            assert (builder().compiled, len(captures)) == before
    for change, ours in zip(CHANGES, found, strict=True):
        config = small(**shape, **change)
        assert_same(ours, trained(take(LearnerCache(), config, market).learner, config))
    assert bool(captures) == config.training.cuda_graph


def test_a_learner_that_was_poisoned_is_as_good_as_new_after_a_reset(market):
    cache, config = LearnerCache(), small(max_skipped_steps=100)
    learner = take(cache, config, market).learner
    learner.collect()
    learner.learn(9)
    state = learner.state_dict()
    state["agent"]["q"][1] = float("nan")
    learner.load_state_dict(state)
    learner.learn(9)
    assert learner.guard.skipped.tolist() == [0, 9, 0, 0]
    again = take(cache, config, market)
    assert again.reused
    fresh = take(LearnerCache(), config, market)
    assert_same(trained(again.learner, config), trained(fresh.learner, config))


def used():
    """Bytes that torch has reserved, and those in use on the device as the driver counts them.

    The driver counts every process: beside other processes of the test run that number says nothing, and
    is left at 0. `make gpu` runs one.
    """
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    shared = "PYTEST_XDIST_WORKER" in os.environ
    return torch.cuda.memory_reserved(), 0 if shared else total - free


def test_two_hundred_trainings_in_a_row_take_no_more_memory_than_two(tmp_path, market, captures):
    trainings = WarmTrainings()

    def run(number):
        change = CHANGES[number % len(CHANGES)]
        training = trainings(small(epochs=1, **{**change, "seed": number}), market, tmp_path)
        training.run_epoch()
        training.close()
        return training.warm

    release_memory()
    run(0)
    run(1)
    before, captured = used(), len(captures)
    assert all(run(number) for number in range(2, 202))
    assert used() == before
    assert len(captures) == captured


def test_learners_of_other_shapes_take_the_place_of_the_old_one_in_memory(tmp_path, market, captures):
    trainings = WarmTrainings()
    shapes = ({}, {"batch_size": 257, "use_iql": False}, {"capacity": 2**15, "trunk_widths": (64, 64)})

    def measure(shape):
        training = trainings(small(epochs=1, **shape), market, tmp_path)
        training.run_epoch()
        training.close()
        return used()

    release_memory()
    for shape in shapes:
        measure(shape)  # libraries set up what they keep for good
    first = [measure(shape) for shape in shapes]
    captured = len(captures)
    later = [[measure(shape) for shape in shapes] for _ in range(3)]
    assert len(captures) > captured
    for seen in later:
        for (reserved, driver), (reserved_before, driver_before) in zip(seen, first, strict=True):
            assert reserved == reserved_before
            assert abs(driver - driver_before) <= 2 * MIB
