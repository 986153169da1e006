"""Forward and backward pass of the batched networks against the reference's networks."""

import pytest
import torch

from trainer.fused.networks import FusedNetworks, slices_of
from trainer.fused.workspaces import QSlopes, QWorkspace, VSlopes, VWorkspace

CPU = torch.device("cpu")
CASES = [
    {"state_dim": 9, "trunk_widths": (7, 6), "head_width": 5, "num_atoms": 9, "branches": (5, 3)},
    {"state_dim": 8, "trunk_widths": (16,), "head_width": 8, "num_atoms": 8, "branches": (3, 3, 3, 3)},
    {"state_dim": 1, "trunk_widths": (1, 1, 1), "head_width": 1, "num_atoms": 2, "branches": (1,)},
]
devices = pytest.mark.parametrize("device_name", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


@pytest.fixture
def device(device_name, request):
    if device_name == "cpu":
        request.getfixturevalue("torch_rectifier")
    return torch.device(device_name)


def padded(state, shapes):
    row = torch.zeros(*state.shape[:2], shapes.state_pitch, device=state.device)
    row[..., : shapes.state_dim] = state
    row[..., shapes.state_dim] = 1.0
    return row


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def relative(ours, theirs):
    difference = (ours.cpu().double() - theirs.double()).norm(dim=-1)
    return float((difference / theirs.double().norm(dim=-1)).max())


@devices
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rows", [1, 5])
def test_q_and_its_gradient_equal_the_references(make_twins, device, case, rows):
    twins = make_twins(device=device, batch_size=rows, **case)
    networks, reference = twins.fused.networks, twins.reference._q
    shapes, kind = networks.shapes, (torch.float32, device)
    state = normal(2, rows, shapes.state_dim)
    workspace = QWorkspace.allocate(shapes, 2, rows, *kind)
    slopes = QSlopes.allocate(shapes, 2, rows, *kind)
    x = padded(state.to(device), shapes)
    networks.q_forward(x, workspace)
    head = workspace.logits + networks.output_bias[:, None]
    head = head.view(2, rows, shapes.head_rows, shapes.atom_pitch)[..., : shapes.num_atoms]
    with torch.enable_grad():
        expected = reference._head(state.double())
    torch.testing.assert_close(head.cpu().double(), expected.detach(), rtol=1e-5, atol=1e-6)

    gradient = normal(*expected.shape, seed=1)
    slopes.logits.view(2, rows, shapes.head_rows, shapes.atom_pitch)[..., : shapes.num_atoms] = gradient
    networks.q.gradient.fill_(float("nan"))
    networks.q_backward(x, workspace, slopes)
    reference.backward(expected, gradient.double())
    ours = networks.q.export(networks.q.gradient.sum(1))
    assert relative(ours, reference.block.gradient) < 1e-5
    assert networks.q.gradient.isfinite().all()  # every place was written


@devices
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rows", [1, 5])
def test_values_and_their_gradient_equal_the_references(make_twins, device, case, rows):
    twins = make_twins(device=device, batch_size=rows, **case)
    networks, reference = twins.fused.networks, twins.reference._value
    shapes, kind = networks.shapes, (torch.float32, device)
    state = normal(2, rows, shapes.state_dim)
    x = padded(state.to(device), shapes).repeat(3, 1, 1)
    workspace, slopes = (
        VWorkspace.allocate(shapes, 6, rows, *kind),
        VSlopes.allocate(shapes, 4, rows, *kind),
    )
    networks.v_forward(x, workspace)
    output = (workspace.hidden[-1] * networks.value_output[:, None]).sum(2)
    expected = reference.values(state.double())
    torch.testing.assert_close(output[:4].cpu().double(), expected.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(output[4:], output[:2], rtol=1e-5, atol=1e-6)  # V_target starts as V_high

    gradient = normal(4, rows, seed=1)
    columns = shapes.trunk_columns[-1]
    slopes.output[..., 0] = gradient.to(device)
    slopes.hidden[-1].copy_(slopes.output[..., :1] * networks.value_output[:4, None, :columns])
    slopes.hidden[-1].mul_(workspace.hidden[-1][:4, :, :columns] > 0)
    networks.v_backward(x[:4], workspace, slopes)
    reference.backward(expected, gradient.double())
    ours = networks.value.export(networks.value.gradient.sum(1))
    error = (ours.cpu().double() - reference.block.gradient).norm()
    assert float(error) <= 1e-5 * float(reference.block.gradient.norm())


@devices
def test_v_high_alone_is_the_first_part_of_all_values(make_twins, device):
    twins = make_twins(device=device)
    networks, shapes = twins.fused.networks, twins.fused.networks.shapes
    x = padded(normal(2, 4, 9).to(device), shapes)
    every = VWorkspace.allocate(shapes, 6, 4, torch.float32, device)
    high = VWorkspace.allocate(shapes, 2, 4, torch.float32, device)
    networks.v_forward(x.repeat(3, 1, 1), every)
    networks.v_forward(x, high, "high")
    torch.testing.assert_close(high.hidden[-1], every.hidden[-1][:2])


@devices
def test_slices_of_the_batch_add_up_to_the_whole_gradient(make_twins, device):
    twins = make_twins(members=1, device=device, batch_size=4096)
    networks, reference = twins.fused.networks, twins.reference._q
    shapes = networks.shapes
    assert networks.q.gradient.shape[1] == 4
    state = normal(1, 4096, 9)
    x = padded(state.to(device), shapes)
    workspace = QWorkspace.allocate(shapes, 1, 4096, torch.float32, device)
    slopes = QSlopes.allocate(shapes, 1, 4096, torch.float32, device)
    gradient = normal(1, 4096, shapes.head_rows, 9, seed=1)
    networks.q_forward(x, workspace)
    slopes.logits.view(1, 4096, shapes.head_rows, shapes.atom_pitch)[..., :9] = gradient
    networks.q_backward(x, workspace, slopes)
    with torch.enable_grad():
        expected = reference._head(state.double())
    reference.backward(expected, gradient.double())
    assert relative(networks.q.export(networks.q.gradient.sum(1)), reference.block.gradient) < 1e-5


@pytest.mark.parametrize(
    ("members", "batch", "expected"),
    [(1, 256, 1), (1, 4095, 1), (1, 4096, 4), (1, 16384, 16), (4, 16384, 4), (60, 16384, 1), (1, 5000, 4)],
)
def test_large_batches_of_few_members_are_cut_into_slices_that_divide_them(members, batch, expected):
    slices = slices_of(members, batch)
    assert slices == expected
    assert batch % slices == 0


def test_networks_without_iql_have_no_values(make_twins):
    networks = make_twins(use_iql=False).fused.networks
    assert isinstance(networks, FusedNetworks)
    workspace = VWorkspace.allocate(networks.shapes, 2, 4, torch.float32, CPU)
    with pytest.raises(ValueError, match=r"only where agent\.use_iql is true"):
        networks.v_forward(torch.zeros(2, 4, 16), workspace, "high")
