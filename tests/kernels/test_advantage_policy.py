import math

import pytest
import torch

from trainer.reference.advantage_policy import greedy_actions, policy_probs, sample_actions


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def sample(q, baseline, beta, draws, sizes):
    """One member; ``q`` of one state, one draw vector per lane."""
    lanes = len(draws)
    level = None if baseline is None else tensor([[baseline] * lanes])
    return sample_actions(tensor([[q] * lanes]), level, tensor([beta]), tensor([draws]), sizes)[0].tolist()


def test_the_odds_of_two_actions_grow_with_their_difference_and_the_inverse_temperature():
    probs = policy_probs(tensor([[[0.0, 1.0]]]), tensor([[0.5]]), tensor([2.0]))[0, 0]
    assert (probs[1] / probs[0]).item() == pytest.approx(math.e**2)
    assert probs.sum().item() == pytest.approx(1.0)


def test_advantages_are_clipped_at_ten():
    probs = policy_probs(tensor([[[-50.0, 12.0, 40.0]]]), tensor([[0.0]]), tensor([0.1]))[0, 0]
    assert probs[1].item() == probs[2].item()
    assert (probs[1] / probs[0]).item() == pytest.approx(math.e**2)


def test_the_largest_inverse_temperature_stays_finite_in_float32():
    probs = policy_probs(torch.tensor([[[-20.0, 20.0]]]), torch.tensor([[0.0]]), torch.tensor([30.0]))
    assert probs.flatten().tolist() == [0.0, 1.0]


def test_the_first_action_whose_cumulative_probability_exceeds_the_draw_is_taken():
    # equal advantages: each of four actions holds one quarter
    draws = [[0.0], [0.2499], [0.25], [0.6], [0.9999]]
    assert sample([1.0] * 4, 0.0, 3.0, draws, (4,)) == [[0], [0], [1], [2], [3]]


def test_every_branch_uses_its_own_draw():
    assert sample([1.0] * 5, 0.0, 3.0, [[0.9, 0.1], [0.1, 0.9]], (2, 3)) == [[1, 0], [0, 2]]


def test_without_a_value_the_mean_of_the_branch_stands_for_it():
    # Advantages -11, 11 around the branch's own mean are clipped to -10, 10; around 0 they are not equal.
    q = [100.0, 122.0]
    own_mean = policy_probs(tensor([[q]]), tensor([[111.0]]), tensor([0.05]))[0, 0]
    around_zero = policy_probs(tensor([[q]]), tensor([[0.0]]), tensor([0.05]))[0, 0]
    draw = (own_mean[0].item() + around_zero[0].item()) / 2  # first action at 0, second at the mean
    assert sample(q, None, 0.05, [[draw]], (2,)) == [[1]]
    assert sample(q, 0.0, 0.05, [[draw]], (2,)) == [[0]]


def test_frequencies_of_a_grid_of_draws_are_the_probabilities():
    q = [0.0, 0.5, 1.0]
    draws = [[(i + 0.5) / 10000] for i in range(10000)]
    actions = torch.tensor(sample(q, 0.2, 1.0, draws, (3,))).flatten()
    share = torch.bincount(actions, minlength=3).double() / 10000
    expected = policy_probs(tensor([[q]]), tensor([[0.2]]), tensor([1.0]))[0, 0]
    torch.testing.assert_close(share, expected, rtol=0, atol=2e-4)


def test_the_largest_draw_takes_a_legal_action_in_float32():
    q = torch.zeros(1, 1, 11)
    draw = torch.full((1, 1, 1), 1 - 2.0**-24)
    assert sample_actions(q, torch.zeros(1, 1), torch.tensor([3.0]), draw, (11,)).item() == 10


def test_greedy_takes_the_best_of_each_branch_and_the_lowest_index_of_a_tie():
    q = tensor([[[0.0, 2.0, 2.0, 5.0, 5.0, 5.0, -1.0]]])
    assert greedy_actions(q, (3, 4)).tolist() == [[[1, 0]]]


def test_greedy_tells_values_apart_that_clipped_advantages_confuse():
    assert greedy_actions(tensor([[[30.0, 40.0]]]), (2,)).item() == 1
