"""The parts of the captured step: times and bytes of the table, and what the critic alone leaves out."""

import pytest
import torch

from trainer.benchmarks import step_parts
from trainer.benchmarks.fused_step import LAYOUT
from trainer.benchmarks.step_parts import StepParts, her_staging_bytes, staging_of
from trainer.benchmarks.step_shapes import Shape
from trainer.fused.step_buffers import StepBuffers
from trainer.layout import StateLayout

META = torch.device("meta")
SMALL = Shape(2, 64, 2**15)


def test_differences_are_taken_from_the_whole_step():
    parts = StepParts(
        whole=100.0, without_hindsight=98.5, without_values=75.0, with_passes=112.0, double_dqn=90.0
    )
    assert parts.cells() == ["100.0", "+1.5", "+25.0", "25%", "33%", "+12.0", "90.0"]


def test_a_part_that_saves_time_has_a_minus():
    parts = StepParts(
        whole=10.0, without_hindsight=10.2, without_values=8.0, with_passes=10.0, double_dqn=9.0
    )
    assert parts.cells()[1] == "-0.2"


def test_hindsight_writes_donor_reward_weight_and_one_goal_column_of_three_states():
    buffers = StepBuffers.allocate(3, 256, LAYOUT, torch.bfloat16, META)
    assert her_staging_bytes(buffers, LAYOUT) == 256 * (4 + 4 + 4 + 3 * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("goal_dim", [1, 16])
def test_hindsight_writes_at_most_64_kib_per_member_at_256_rows(dtype, goal_dim):
    layout = StateLayout(goal_dim, 2 * goal_dim, 8, goal_dim, (3,))
    buffers = StepBuffers.allocate(15, 256, layout, dtype, META)
    assert her_staging_bytes(buffers, layout) <= 64 * 1024


@pytest.mark.parametrize("shape", step_parts.SHAPES)
def test_the_staging_of_a_member_does_not_depend_on_the_stack(shape):
    assert staging_of(shape) == staging_of(Shape(1, shape.batch_size, shape.capacity))


@pytest.mark.gpu
def test_the_critic_alone_leaves_value_networks_and_second_state_as_they_are():
    from trainer.benchmarks.fused_step import FusedStep

    stack = FusedStep(SMALL, "bf16")
    alone = step_parts.CriticStep(stack)
    networks = stack.agent.networks
    value, q = networks.value.value.clone(), networks.q.value.clone()
    alone.bootstrap.fill_(0.5)
    stack.buffers.state[1] = 7.0
    for _ in range(3):
        alone.step()
    assert torch.equal(networks.value.value, value)
    assert not torch.equal(networks.q.value, q)
    assert (stack.buffers.state[1] == 7.0).all()
    assert alone.verdict.adam_step.tolist() == [3, 3]
    assert stack.buffers.td_error.isfinite().all()


@pytest.mark.gpu
def test_the_critic_alone_launches_the_kernels_of_one_network(monkeypatch):
    from trainer.benchmarks.fused_step import FusedStep
    from trainer.kernels.loader import Kernel

    launched = []
    launch = Kernel.launch

    def record(kernel, *args, **options):
        launched.append(kernel.name)
        launch(kernel, *args, **options)

    alone = step_parts.CriticStep(FusedStep(SMALL, "bf16"))
    monkeypatch.setattr(Kernel, "launch", record)
    alone.step()
    counts = {name: launched.count(name) for name in launched}
    once = ("priority_sums", "replay_sample", "c51_iql_step", "gradient_norm", "accept_step", "adamw_step")
    assert [counts[name] for name in once] == [1] * 6
    assert counts["relu"] == 3  # two layers of the trunk, the heads
    assert counts["relu_mask"] == 3


@pytest.mark.gpu
def test_the_variants_of_the_step_allocate_nothing_in_a_capture():
    from trainer.benchmarks.fused_step import FusedStep, replay_of
    from trainer.graph import NO_ALLOCATIONS, allocations_of_a_capture

    stack = FusedStep(SMALL, "bf16")
    for step in (step_parts.CriticStep(stack).step, step_parts.BothPassesStep(stack).step):
        replay_of(step)()
        assert allocations_of_a_capture(step) == NO_ALLOCATIONS


@pytest.mark.gpu
def test_the_passes_of_double_dqn_change_nothing_of_the_step():
    from trainer.benchmarks.fused_step import FusedStep

    torch.manual_seed(3)
    stack = FusedStep(SMALL, "bf16")
    torch.manual_seed(3)
    twin = FusedStep(SMALL, "bf16")
    both = step_parts.BothPassesStep(twin)
    for _ in range(3):
        stack.step()
        both.step()
    assert torch.equal(stack.agent.networks.q.value, twin.agent.networks.q.value)
    assert torch.equal(stack.agent.networks.value.value, twin.agent.networks.value.value)


@pytest.mark.gpu
def test_the_table_has_a_row_for_each_shape(monkeypatch):
    monkeypatch.setattr(step_parts, "SHAPES", (SMALL,))
    head, _, row = step_parts.table().splitlines()
    assert head.startswith("| M, B | step, us | hindsight, us | IQL, us |")
    cells = row.strip("| ").split(" | ")
    assert cells[0] == "2, 64"
    assert float(cells[1]) > 0.0
    assert float(cells[-1]) == pytest.approx(64 * 18 / 1024, abs=0.06)
