import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.reference.c51_project import c51_project
from trainer.reference.c51_support import support
from trainer.reference.double_dqn_target import discounted_location


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def project(probs, location, v_min, v_max, num_atoms):
    """One member, one row."""
    result = c51_project(
        tensor(probs)[None, None], tensor(location)[None, None], tensor([v_min]), tensor([v_max]), num_atoms
    )
    return result.target[0, 0], result.clipped_share[0].item()


def gather_form(probs, location, v_min, v_max, num_atoms):
    """m_j = sum_i p_i max(0, 1 - |clip(x_i) - z_j| / dz), straight from the formula."""
    step = (v_max - v_min) / (num_atoms - 1)
    masses = []
    for j in range(num_atoms):
        atom = v_min + j * step
        clipped = [min(max(x, v_min), v_max) for x in location]
        masses.append(
            sum(p * max(0.0, 1 - abs(x - atom) / step) for p, x in zip(probs, clipped, strict=True))
        )
    return tensor(masses)


def test_halved_atoms_of_a_uniform_distribution_keep_all_their_mass():
    atoms = [float(z) for z in range(-5, 6)]
    target, clipped = project([1 / 11] * 11, [0.5 * z for z in atoms], -5.0, 5.0, 11)
    torch.testing.assert_close(target * 11, tensor([0, 0, 0.5, 2, 2, 2, 2, 2, 0.5, 0, 0]))
    assert target.sum().item() == pytest.approx(1.0, abs=1e-12)
    assert clipped == 0.0


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (0.3, {5: 0.7, 6: 0.3}),
        (2.0, {7: 1.0}),
        (0.0, {5: 1.0}),
        (-5.0, {0: 1.0}),
        (5.0, {10: 1.0}),
        (-4.75, {0: 0.75, 1: 0.25}),
        (4.75, {9: 0.25, 10: 0.75}),
    ],
)
def test_a_terminal_reward_lands_on_the_atoms_around_it(reward, expected):
    location = discounted_location(
        tensor([[reward]]),
        torch.tensor([[True]]),
        tensor([0.5]),
        support(tensor([-5.0]), tensor([5.0]), 11)[:, None],
    )
    target, _ = project([1 / 11] * 11, location[0, 0].tolist(), -5.0, 5.0, 11)
    wanted = torch.zeros(11, dtype=torch.float64)
    for atom, mass in expected.items():
        wanted[atom] = mass
    torch.testing.assert_close(target, wanted)


def test_a_return_beyond_the_support_is_clipped_to_its_end_and_counted():
    target, clipped = project([0.25, 0.5, 0.25], [-9.0, 0.0, 9.0], -1.0, 1.0, 3)
    assert target.tolist() == [0.25, 0.5, 0.25]
    assert clipped == 0.5


def test_infinite_places_are_clipped_to_the_ends():
    target, clipped = project([0.25, 0.75], [float("-inf"), float("inf")], -1.0, 1.0, 3)
    assert target.tolist() == [0.25, 0.0, 0.75]
    assert clipped == 1.0


def test_two_atoms_share_a_point_linearly():
    target, _ = project([1.0], [0.25], 0.0, 1.0, 2)
    assert target.tolist() == [0.75, 0.25]


def test_a_nan_place_makes_its_row_nan_and_leaves_the_other_rows():
    location = tensor([[[float("nan")], [0.0]]])
    target = c51_project(torch.ones_like(location), location, tensor([-1.0]), tensor([1.0]), 3).target
    assert target[0, 0].isnan().any()
    assert target[0, 1].tolist() == [0.0, 1.0, 0.0]


def test_every_member_projects_on_its_own_support():
    location = torch.ones((2, 1, 1), dtype=torch.float64)
    target = c51_project(
        torch.ones_like(location), location, tensor([-1.0, 0.0]), tensor([1.0, 4.0]), 3
    ).target
    assert target[:, 0].tolist() == [[0.0, 0.0, 1.0], [0.5, 0.5, 0.0]]


@settings(deadline=None, max_examples=60)
@given(
    st.integers(2, 13),
    st.lists(st.floats(-9, 9), min_size=1, max_size=13),
    st.floats(-6, 0),
    st.floats(0.5, 7),
)
def test_the_scatter_form_equals_the_gather_form_and_rows_sum_to_one(num_atoms, location, v_min, width):
    probs = [(i + 1.0) for i in range(len(location))]
    probs = [p / sum(probs) for p in probs]
    target, _ = project(probs, location, v_min, v_min + width, num_atoms)
    torch.testing.assert_close(
        target, gather_form(probs, location, v_min, v_min + width, num_atoms), rtol=0, atol=1e-10
    )
    assert target.sum().item() == pytest.approx(1.0, abs=1e-12)
    assert (target >= -1e-15).all()


def test_float32_rows_sum_to_one_even_where_the_division_overshoots_the_last_atom():
    v_min, v_max = torch.tensor([-6.0, -0.1]), torch.tensor([6.0, 0.7])
    location = v_max[:, None, None].expand(2, 1, 1)
    for num_atoms in (2, 21, 51, 101):
        target = c51_project(torch.ones(2, 1, 1), location, v_min, v_max, num_atoms).target
        assert ((target.sum(-1) - 1).abs() < 1e-6).all()
        assert (target[:, 0, -1] > 1 - 1e-4).all()
