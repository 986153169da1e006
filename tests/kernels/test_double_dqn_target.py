import math

import torch

from trainer.reference.c51_project import c51_project
from trainer.reference.double_dqn_target import discounted_location, double_dqn_target


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def test_the_target_is_the_mean_of_the_branches_distributions():
    logits = tensor([[[[0.0, 0.0], [0.0, math.log(3.0)]]]])  # one half, one half; one quarter, three quarters
    torch.testing.assert_close(double_dqn_target(logits), tensor([[[0.375, 0.625]]]))


def test_rows_of_the_mixture_sum_to_one():
    logits = torch.randn(2, 5, 3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(double_dqn_target(logits).sum(-1), torch.ones(2, 5, dtype=torch.float64))


def test_a_running_row_is_discounted_by_its_members_gamma_and_a_terminal_one_is_not():
    location = discounted_location(
        tensor([[1.0, 1.0], [1.0, 1.0]]),
        torch.tensor([[False, True], [False, True]]),
        tensor([0.5, 0.9]),
        tensor([[[4.0], [4.0]], [[-10.0], [-10.0]]]),
    )
    assert location[..., 0].tolist() == [[3.0, 1.0], [-8.0, 1.0]]


def test_gamma_zero_leaves_the_reward():
    location = discounted_location(tensor([[0.3]]), torch.tensor([[False]]), tensor([0.0]), tensor([[[5.0]]]))
    assert location.item() == 0.3


def test_a_terminal_row_does_not_see_an_infinite_next_value():
    location = discounted_location(
        tensor([[0.3]]), torch.tensor([[True]]), tensor([0.9]), tensor([[[math.inf]]])
    )
    assert location.item() == 0.3


def test_a_terminal_distribution_without_reward_collapses_on_zero():
    atoms = torch.linspace(-1, 1, 5, dtype=torch.float64)[None, None]
    location = discounted_location(tensor([[0.0]]), torch.tensor([[True]]), tensor([0.9]), atoms)
    target = c51_project(
        torch.full((1, 1, 5), 0.2, dtype=torch.float64), location, tensor([-1.0]), tensor([1.0]), 5
    )
    torch.testing.assert_close(target.target[0, 0], tensor([0.0, 0.0, 1.0, 0.0, 0.0]))
