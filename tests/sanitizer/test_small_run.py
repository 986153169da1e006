"""What the sanitizers are shown: every kernel, with every odd shape that it depends on. Runs without a GPU.

The configurations run on the CPU with launches recorded instead of made; torch's own operations do run.
"""

import math
import re
import runpy
import types
from pathlib import Path

import pytest
import torch

from trainer.kernels.loader import Kernel
from trainer.kernels.source import source_dir

SCRIPT = Path(__file__).with_name("small_run.py")
CPU = torch.device("cpu")
STATES, BATCHES, ATOMS = {1, 7, 33, 56, 63}, {1, 31, 257}, {2, 51, 101}
BRANCHES = {"n3", "n5n3n3", "n3n3n3n3"}
ACTIVATIONS = {"float", "foxtune::Bf16"}
MARKET_STATES = {33, 56, 63}  # eight columns come before the table's


class Event:
    def record(self):
        pass

    def synchronize(self):
        pass


@pytest.fixture(scope="module")
def small_run():
    return types.SimpleNamespace(**runpy.run_path(str(SCRIPT)))


@pytest.fixture(scope="module")
def recorded(small_run):
    """(configuration, kernel, arguments) of every launch."""
    found, zeros = [], torch.zeros
    configuration = None

    def record(kernel, grid, block, *args, **_):
        [kernel._value(arg) for arg in args]
        found.append((configuration, kernel, args))

    def product(left, right, out):
        out.copy_(torch.bmm(left.float(), right.float()))

    def unpinned(*args, pin_memory=False, **options):
        return zeros(*args, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Kernel, "launch", record)
        patched.setattr("trainer.fused.networks.product", product)
        patched.setattr(torch, "zeros", unpinned)
        patched.setattr(torch.cuda, "Event", Event)
        patched.setattr(
            torch.cuda,
            "get_device_properties",
            lambda _: types.SimpleNamespace(multi_processor_count=132, major=9, minor=0),
        )
        for configuration in small_run.CONFIGURATIONS:
            small_run.run(configuration, CPU)
    return found


def defined(recorded, kernel, name):
    """Values of one definition over all launches of a kernel."""
    return {dict(each.spec.defines)[name] for _, each, _ in recorded if each.name == kernel}


def shapes(recorded, kernel, name):
    return {getattr(configuration, name) for configuration, each, _ in recorded if each.name == kernel}


def test_every_kernel_is_launched(recorded):
    assert {kernel.name for _, kernel, _ in recorded} == {path.stem for path in source_dir().glob("*.cu")}


@pytest.mark.parametrize("kernel", ["c51_iql_step", "c51_double_dqn_step", "act"])
def test_every_number_of_atoms_every_set_of_branches_and_both_types_reach(recorded, kernel):
    assert defined(recorded, kernel, "NUM_ATOMS") == ATOMS
    assert defined(recorded, kernel, "ACTIONS") == BRANCHES
    assert defined(recorded, kernel, "ACTIVATION") == ACTIVATIONS


@pytest.mark.parametrize(
    "kernel",
    [
        "c51_iql_step",
        "c51_double_dqn_step",
        "replay_sample",
        "sample_indices",
        "priority_write",
        "accept_step",
        "relu",
        "relu_mask",
    ],
)
def test_every_batch_size_reaches(recorded, kernel):
    assert shapes(recorded, kernel, "batch") >= BATCHES


@pytest.mark.parametrize("kernel", ["replay_insert", "replay_sample", "relu", "gradient_norm", "adamw_step"])
def test_every_width_of_a_state_reaches(recorded, kernel):
    assert shapes(recorded, kernel, "state") >= STATES


@pytest.mark.parametrize("kernel", ["market_begin", "market_step", "evaluation_step"])
def test_the_market_is_traded_with_every_width_both_types_both_returns_and_a_lane_of_one_step(
    recorded, kernel
):
    assert shapes(recorded, kernel, "state") == MARKET_STATES
    assert defined(recorded, kernel, "ACTIVATION") == ACTIVATIONS
    assert defined(recorded, kernel, "RELATIVE") == {0, 1}
    assert 1 in shapes(recorded, kernel, "length")


def test_both_fills_are_traded(recorded):
    for kernel in ("market_step", "evaluation_step"):
        assert defined(recorded, kernel, "AT_CLOSE") == {0, 1}


@pytest.mark.parametrize("kernel", ["replay_insert", "collection_close", "replay_sample"])
def test_a_lane_of_one_step_reaches(recorded, kernel):
    assert 1 in shapes(recorded, kernel, "length")


def test_actions_are_sampled_with_and_without_a_value_network_and_taken_greedily(recorded):
    assert defined(recorded, "act", "HAS_VALUE") == {0, 1}
    assert defined(recorded, "act", "GREEDY") == {0, 1}


def test_both_targets_are_learnt_in_all_precisions(small_run):
    wanted = {(precision, iql) for precision in ("fp32", "tf32", "bf16") for iql in (True, False)}
    assert {(each.precision, each.use_iql) for each in small_run.CONFIGURATIONS} == wanted


def test_members_differ_in_strategy_and_reward(small_run):
    configs = small_run.member_configs(small_run.CONFIGURATIONS[0])
    strategies = {each.hindsight.her_strategy for each in configs}
    assert strategies == {"final", "future", "episode", "random"}
    assert {each.environment.reward for each in configs} == {"dsr", "return"}
    assert {each.hindsight.her_weight for each in configs} == {"own", "one"}


def test_rows_are_relabelled_under_every_strategy(small_run):
    rings = [each for each in small_run.CONFIGURATIONS if each.market is None]
    assert max(math.floor(each.batch * 0.5) for each in rings if each.members == 4) > 100


def test_every_fault_that_is_planted_stands_in_one_kernel(small_run):
    assert sorted(small_run.PLANTED) == ["initcheck", "memcheck", "racecheck", "synccheck"]
    assert not [path for path in source_dir().glob("*.cu") if path.stem == "planted"]


def test_the_script_asks_for_every_tool_that_has_a_planted_fault(small_run):
    script = (SCRIPT.parents[2] / ".ci" / "sanitize").read_text(encoding="utf-8")
    tools = re.search(r"^tools=\(([^)]*)\)", script, re.MULTILINE)[1].split()
    assert sorted(tools) == sorted(small_run.PLANTED)


def test_plain_products_are_the_products(small_run):
    left, right = torch.randn(3, 5, 7), torch.randn(3, 7, 4)
    out = torch.empty(3, 5, 4)
    with small_run.plain_products():
        small_run.products.product(left, right, out)
    torch.testing.assert_close(out, torch.bmm(left, right))
