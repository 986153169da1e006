import torch

from trainer.reference.dueling_logits import branch_slices, chosen_logits, dueling_logits


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def plain(head, sizes):
    parts = []
    for span in branch_slices(sizes):
        advantage = head[:, :, 1 + span.start : 1 + span.stop]
        parts.append(head[:, :, :1] + advantage - advantage.mean(2, keepdim=True))
    return torch.cat(parts, 2)


def test_branches_stand_one_after_the_other():
    assert branch_slices((5, 3, 1)) == (slice(0, 5), slice(5, 8), slice(8, 9))


def test_the_value_is_added_and_the_branch_mean_subtracted():
    head = torch.tensor([10.0, 1.0, 3.0, 5.0, 7.0]).view(1, 1, 5, 1)  # value, branch of 1, branch of 3
    assert dueling_logits(head, (1, 3)).flatten().tolist() == [10.0, 8.0, 10.0, 12.0]


def test_a_branch_averages_to_the_value():
    head = random(2, 3, 1 + 8, 4)
    logits = dueling_logits(head, (5, 3))
    for span in branch_slices((5, 3)):
        torch.testing.assert_close(logits[:, :, span].mean(2), head[:, :, 0])


def test_chosen_logits_are_the_rows_of_all_logits():
    sizes, head = (5, 3, 3), random(2, 7, 12, 4)
    action = torch.stack(
        [torch.randint(n, (2, 7), generator=torch.Generator().manual_seed(n)) for n in sizes], 2
    )
    every = dueling_logits(head, sizes)
    torch.testing.assert_close(every, plain(head, sizes))
    chosen = chosen_logits(head, action, sizes)
    for k, span in enumerate(branch_slices(sizes)):
        index = action[:, :, k, None, None].expand(-1, -1, 1, 4)
        expected = every[:, :, span].gather(2, index)[:, :, 0]
        torch.testing.assert_close(chosen[:, :, k], expected, rtol=1e-14, atol=1e-14)


def test_the_gradient_equals_autograd_of_the_plain_form():
    sizes, head = (5, 1, 3), random(2, 7, 10, 4).requires_grad_()
    action = torch.stack(
        [torch.randint(n, (2, 7), generator=torch.Generator().manual_seed(n)) for n in sizes], 2
    )
    upstream = random(2, 7, 3, 4, seed=1)
    (got,) = torch.autograd.grad(chosen_logits(head, action, sizes), head, upstream)
    first = torch.tensor([0, 5, 6])
    rows = plain(head, sizes).gather(2, (action + first)[..., None].expand(-1, -1, -1, 4))
    (expected,) = torch.autograd.grad(rows, head, upstream)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
