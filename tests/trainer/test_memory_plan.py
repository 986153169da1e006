"""Memory plans: counted from the tensors that a training will hold, on the meta device, and by hand."""

import pytest
import torch

from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.errors import MemoryPlanError
from trainer.folds import split
from trainer.fused.shapes import FusedShapes
from trainer.fused.step_buffers import StepBuffers
from trainer.fused.workspaces import QWorkspace
from trainer.layout import StateLayout
from trainer.market_environment import market_layout
from trainer.memory_plan import META, MIB, Item, MemoryPlan, items_of, require_fit
from trainer.planned_training import (
    activation_items,
    generous_estimate,
    largest,
    plan_training,
    what_fits,
)
from trainer.replay import ReplayBuffer

DENSE = StateLayout(goal_dim=1, prefix_dim=64, table_dim=0, achieved_offset=1, actions_per_branch=(11,) * 4)
GIB = 2**30


@pytest.fixture(scope="module")
def market():
    return load_market(configured())


def configured(**keys):
    return TrainerConfig.build().with_overrides(
        {"data.path": "synthetic:known_answer:600:1", "episode_length": 16, **keys}
    )


def stack(config, market):
    return list(split(len(market.bars), config.walk_forward).folds) * config.training.seeds


def size(plan, group, name=None):
    return sum(each.size for each in plan.items if each.group == group and name in (None, each.name))


def test_a_tensor_of_branch_logits_and_six_of_them_have_the_sizes_computed_by_hand():
    config = configured(batch_size=16384)
    items = activation_items(config, DENSE, 1, torch.float32)
    assert [each.size / MIB for each in items] == [140.25] * 6
    assert sum(each.size for each in items) / MIB == 841.5


def test_a_million_dense_states_and_next_states_of_64_floats_have_the_size_computed_by_hand():
    replay = ReplayBuffer(1, 10**6, DENSE, torch.float32, META)
    states = [each for each in items_of(replay, "replay") if "prefix" in each.name]
    assert [each.shape for each in states] == [(1, 10**6, 64)] * 2
    assert sum(each.size for each in states) / MIB == pytest.approx(488.28125)


def test_views_and_repeated_owners_are_counted_once():
    whole = torch.empty((4, 8), device=META)
    assert items_of((whole, whole[1:], {"again": whole}), "all") == [Item("all", "", (4, 8), 128)]


def test_objects_that_refer_to_each_other_are_walked_once():
    inner: list = [torch.empty(2, device=META)]
    inner.append(inner)
    assert [each.size for each in items_of(inner, "all")] == [8]


def test_the_plan_of_the_fused_backend_holds_its_buffers_byte_for_byte(market):
    config = configured(batch_size=33, capacity=8192, episodes=5, seeds=2)
    folds, layout = stack(config, market), market_layout(config, len(market.feature_names))
    plan = plan_training(config, market, folds, "fused")
    members = len(folds)
    assert members == 10
    replay = ReplayBuffer(members, 8192, layout, torch.float32, META)
    rings = sum(each.nbytes for each in (*replay.rings, replay.mass)) + replay.largest_error.nbytes
    assert size(plan, "replay") == rings + replay.written.nbytes + replay._member_base.nbytes
    batch = StepBuffers.allocate(members, 33, layout, torch.bfloat16, META)
    assert size(plan, "batch") == sum(each.nbytes for each in vars(batch).values())
    shapes = FusedShapes.of(config.agent, layout)
    logits = members * (33 + 5 + 1) * shapes.logit_width * 4  # a step, acting in E lanes, evaluating
    assert size(plan, "activations", "logits") == logits
    workspace = QWorkspace.allocate(shapes, members, 33, torch.bfloat16, META)
    assert size(plan, "activations") > sum(each.nbytes for each in (*workspace.hidden, workspace.head))


def test_the_plan_grows_with_batch_members_and_capacity(market):
    base = plan_training(configured(), market, stack(configured(), market), "fused")
    for keys in ({"batch_size": 512}, {"seeds": 2}, {"capacity": 2**18}, {"precision": "fp32"}):
        config = configured(**keys)
        assert plan_training(config, market, stack(config, market), "fused").total > base.total, keys


@pytest.mark.parametrize("use_iql", [True, False])
def test_the_reference_has_a_plan_for_both_algorithms(market, use_iql):
    config = configured(use_iql=use_iql, dtype="float64")
    plan = plan_training(config, market, stack(config, market), "reference")
    assert {"replay", "networks", "collection", "activations"} <= {each.group for each in plan.groups()}
    assert plan.total == sum(each.size for each in plan.groups())


def test_a_plan_that_does_not_fit_is_one_sentence_with_sizes_and_what_fits():
    plan = MemoryPlan((Item("replay", "states", (5,), 3 * GIB), Item("batch", "rows", (), GIB)), 100)
    with pytest.raises(MemoryPlanError) as caught:
        require_fit(plan, GIB, "NVIDIA X", "lower it")
    assert str(caught.value) == (
        "the training needs 4096 MiB, but 1024 MiB are free on NVIDIA X "
        "(biggest: replay states 3072 MiB, batch rows 1024 MiB); lower it"
    )
    require_fit(plan, 4 * GIB, "NVIDIA X", "")


def test_what_fits_does_fit_and_hardly_more_would(market):
    config = configured(batch_size=16384, actions_per_branch="11x11x11x11")
    folds, free = stack(config, market), 3 * GIB
    words = what_fits(config, market, folds, "fused", free)
    rows = int(words.split("agent.batch_size = ")[1].split()[0])
    members = int(words.split("or ")[1].split()[0])

    def needed(rows, members):
        chosen = config.with_overrides({"batch_size": rows})
        return plan_training(chosen, market, [folds[0]] * members, "fused").total

    assert needed(rows, len(folds)) <= free < needed(int(1.1 * rows), len(folds))
    assert needed(16384, members) <= free < needed(16384, members + 2)


def test_nothing_fits_into_nothing(market):
    config = configured()
    assert "neither a batch of 1 nor a single member fits" in what_fits(
        config, market, stack(config, market), "fused", MIB
    )


@pytest.mark.parametrize(("free", "expected"), [(99, 0), (100, 1), (119, 2), (1000, 91)])
def test_the_largest_number_is_found_on_a_straight_line(free, expected):
    assert largest(lambda number: 90 + 10 * number, 4, free) == expected


@pytest.mark.parametrize("free", [5, 300, 77_777])
def test_the_largest_number_is_found_on_a_bent_line(free):
    found = largest(lambda number: number**2 + number, 8, free)
    assert found**2 + found <= free
    assert (1.25 * found) ** 2 + 1.25 * found > free or found < 4


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"batch_size": 16384, "actions_per_branch": "11x11x11x11"},
        {"use_iql": False, "precision": "fp32", "trunk_widths": "512x512x512"},
        {"capacity": 2**20, "episodes": 512, "head_width": 7, "trunk_widths": "9"},
        {"precision": "fp32", "batch_size": 8192, "num_atoms": 201},
    ],
)
def test_no_plan_exceeds_the_generous_estimate(market, keys):
    config = configured(**keys)
    folds, layout = stack(config, market), market_layout(config, len(market.feature_names))
    plan = plan_training(config, market, folds, "fused")
    assert plan.total <= generous_estimate(config, layout, len(folds))
