import torch

from trainer.reference.polyak import polyak


def test_the_target_moves_its_members_share_of_the_way():
    target, online = torch.tensor([[0.0, 4.0], [0.0, 4.0]]), torch.tensor([[8.0, 0.0], [8.0, 0.0]])
    polyak(target, online, torch.tensor([0.25, 0.5]))
    assert target.tolist() == [[2.0, 3.0], [4.0, 2.0]]
    assert online.tolist() == [[8.0, 0.0], [8.0, 0.0]]


def test_rate_zero_keeps_the_target_and_rate_one_takes_the_online_values():
    target, online = torch.tensor([[0.1], [0.1]]), torch.tensor([[8.0], [8.0]])
    polyak(target, online, torch.tensor([0.0, 1.0]))
    assert target.tolist() == [[torch.tensor(0.1).item()], [8.0]]
