import torch

from trainer.reference.c51_support import delta_z, expected_value, support


def test_the_atoms_run_from_v_min_to_v_max_of_each_member():
    atoms = support(torch.tensor([-5.0, 0.0]), torch.tensor([5.0, 2.0]), 5)
    assert atoms.tolist() == [[-5.0, -2.5, 0.0, 2.5, 5.0], [0.0, 0.5, 1.0, 1.5, 2.0]]
    assert delta_z(torch.tensor([-5.0, 0.0]), torch.tensor([5.0, 2.0]), 5).tolist() == [2.5, 0.5]


def test_the_expected_value_weighs_each_members_own_atoms():
    atoms = support(torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 4.0]), 3)
    probs = torch.tensor([0.5, 0.25, 0.25]).expand(2, 1, 1, 3)
    assert expected_value(probs, atoms).flatten().tolist() == [-0.25, 1.5]
