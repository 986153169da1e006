"""Actions from the networks' outputs against the reference policy on the same numbers."""

import pytest
import torch

from trainer.config import TrainerConfig
from trainer.fused.networks import FusedNetworks
from trainer.fused.workspaces import QWorkspace, VWorkspace
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.act import ActionDraws, act, act_greedily
from trainer.layout import StateLayout
from trainer.reference.advantage_policy import greedy_actions, sample_actions
from trainer.reference.c51_support import expected_value, support
from trainer.reference.dueling_logits import dueling_logits
from trainer.reference.philox import Purpose, draw, uniform

pytestmark = pytest.mark.gpu

MEMBERS = 3
ACTED = 2**33 + 5  # beyond 32 bits
TIE = 1e-5  # E[Q] closer than this may be ordered either way


class Case:
    """Random outputs of the networks for R rows, and the reference's view of them in float64."""

    def __init__(self, device, guards, branches, *, atoms=51, rows=33, use_iql=True, dtype=torch.float32):
        small = {"num_atoms": atoms, "trunk_widths": (24, 20), "head_width": 12, "use_iql": use_iql}
        config = TrainerConfig().with_overrides(small)
        temperatures = [config.with_overrides({"iql_advantage_temperature": t}) for t in (0.5, 3.0, 30.0)]
        self.hyper = Hyperparameters.stack(temperatures, torch.float32, device)
        self.branches = branches
        layout = StateLayout(1, 8, 4, 1, branches)
        self.keys = torch.tensor([[1, 0], [2, 1], [2**31 - 1, 7]], device=device)
        networks = self.networks = FusedNetworks(config.agent, layout, self.keys, dtype, device)
        generator = torch.Generator(device).manual_seed(atoms + rows)
        self.q = QWorkspace.allocate(networks.shapes, MEMBERS, rows, dtype, device)
        self.q.logits.normal_(generator=generator)
        networks.output_bias.normal_(generator=generator)
        self.value = None
        if use_iql:
            self.value = VWorkspace.allocate(networks.shapes, MEMBERS, rows, dtype, device)
            self.value.hidden[-1][..., :20].normal_(generator=generator)
            networks.value_output.normal_(generator=generator).mul_(0.1)
        position = torch.arange(MEMBERS * rows, dtype=torch.int32, device=device).view(MEMBERS, rows) % 5
        self.draws = ActionDraws(self.keys, torch.tensor(ACTED, device=device), position)
        self.action = guards.like(
            torch.zeros((MEMBERS, rows, len(branches)), dtype=torch.uint8, device=device)
        )

    def expected(self):
        """E[Q] [M, R, A] float64 on the CPU."""
        shapes, hyper = self.networks.shapes, self.hyper
        head = (self.q.logits + self.networks.output_bias[:, None]).double().cpu()
        head = head.unflatten(2, (shapes.head_rows, shapes.atom_pitch))[..., : shapes.num_atoms]
        probs = torch.softmax(dueling_logits(head, self.branches), -1)
        return expected_value(
            probs, support(hyper.v_min.double().cpu(), hyper.v_max.double().cpu(), shapes.num_atoms)
        )

    def baseline(self):
        """V_high [M, R] float64 on the CPU, or None."""
        if self.value is None:
            return None
        hidden = self.value.hidden[-1].double().cpu()
        return (hidden * self.networks.value_output[:MEMBERS, None].double().cpu()).sum(2)

    def sampled(self):
        """The reference's actions, each row at its own step."""
        rows, branches = self.action.shape[1:]
        lane = torch.arange(rows * branches)
        at_step = []
        for step in range(5):
            words = draw(self.keys.cpu(), Purpose.ACTION, torch.tensor(ACTED + step), lane)[..., 0]
            at_step.append(uniform(words, torch.float64).view(MEMBERS, rows, branches))
        chosen = self.draws.position.cpu().long()[None, ..., None].expand(1, -1, -1, branches)
        draws = torch.stack(at_step).gather(0, chosen)[0]
        temperature = self.hyper.inverse_temperature.double().cpu()
        return sample_actions(self.expected(), self.baseline(), temperature, draws, self.branches)


BRANCHES = [(5, 3, 3), (3, 3, 3, 3), (1,), (256, 2), (33, 1, 2, 2, 9)]


@pytest.mark.parametrize("use_iql", [True, False])
@pytest.mark.parametrize("atoms", [2, 51, 101])
@pytest.mark.parametrize("branches", BRANCHES)
def test_sampled_actions_equal_those_of_the_reference(branches, atoms, use_iql, cuda, guards):
    case = Case(cuda, guards, branches, atoms=atoms, rows=501, use_iql=use_iql)
    act(case.networks, case.q, case.value, case.hyper, case.draws, case.action)
    equal = case.action.cpu().long() == case.sampled()
    assert equal.float().mean().item() >= 0.9998
    assert guards.intact()


@pytest.mark.parametrize("atoms", [2, 51, 101])
@pytest.mark.parametrize("branches", BRANCHES)
def test_greedy_actions_have_the_largest_expected_value(branches, atoms, cuda, guards):
    case = Case(cuda, guards, branches, atoms=atoms, rows=33)
    act_greedily(case.networks, case.q, case.hyper, case.action)
    expected = case.expected()
    best = greedy_actions(expected, branches)
    first = torch.tensor([sum(branches[:k]) for k in range(len(branches))])
    chosen = case.action.cpu().long()
    lost = expected.gather(2, best + first) - expected.gather(2, chosen + first)
    assert float(lost.max()) < TIE
    assert (chosen == best).float().mean().item() > 0.99
    assert guards.intact()


def test_equal_values_are_decided_for_the_lowest_index(cuda, guards):
    case = Case(cuda, guards, (5, 3))
    case.q.logits.zero_()
    case.networks.output_bias.zero_()
    act_greedily(case.networks, case.q, case.hyper, case.action)
    assert not case.action.any()


def test_bfloat16_activations_act_as_their_rounded_values_do(cuda, guards):
    case = Case(cuda, guards, (5, 3, 3), rows=501, dtype=torch.bfloat16)
    act(case.networks, case.q, case.value, case.hyper, case.draws, case.action)
    equal = case.action.cpu().long() == case.sampled()
    assert equal.float().mean().item() >= 0.9998


def test_actions_repeat_bit_for_bit_and_change_with_the_step(cuda, guards):
    case = Case(cuda, guards, (5, 3, 3))
    taken = []
    for step in (0, 0, 1):
        case.draws.acted.fill_(step)
        act(case.networks, case.q, case.value, case.hyper, case.draws, case.action)
        taken.append(case.action.clone())
    assert torch.equal(taken[0], taken[1])
    assert not torch.equal(taken[0], taken[2])


def test_a_new_temperature_counts_at_once(cuda, guards):
    case = Case(cuda, guards, (5, 3, 3), rows=501)
    case.hyper.inverse_temperature.fill_(1000.0)
    act(case.networks, case.q, case.value, case.hyper, case.draws, case.action)
    sharp = case.action.cpu().long()
    assert (sharp == greedy_actions(case.expected(), case.branches)).float().mean().item() > 0.95
