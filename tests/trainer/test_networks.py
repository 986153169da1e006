import pytest
import torch

from trainer.config import TrainerConfig
from trainer.layout import StateLayout
from trainer.networks import QNetwork, ValueNetwork, head_groups
from trainer.reference.c51_support import support
from trainer.reference.dueling_logits import branch_slices

CPU = torch.device("cpu")


def agent_config(**changed):
    return (
        TrainerConfig()
        .with_overrides({"trunk_widths": (7, 5), "head_width": 3, "num_atoms": 4} | changed)
        .agent
    )


def layout(state_dim, branches):
    return StateLayout(
        goal_dim=0, prefix_dim=state_dim, table_dim=0, achieved_offset=0, actions_per_branch=branches
    )


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def q_network(state_dim=9, branches=(5, 3), members=2, **changed):
    network = QNetwork(agent_config(**changed), layout(state_dim, branches), members, torch.float64, CPU)
    network.block.initialise(slice(None), torch.tensor([[0, m] for m in range(members)]), 0)
    return network


def value_network(networks=4, state_dim=9, **changed):
    network = ValueNetwork(agent_config(**changed), layout(state_dim, (2,)), networks, torch.float64, CPU)
    network.block.initialise(slice(None), torch.tensor([[0, m] for m in range(networks)]), 0)
    return network


def plain_logits(parameters, state, depth, branches, head_width, atoms):
    """One member by textbook layers; ``parameters`` by name."""
    x = state
    for layer in range(depth):
        x = torch.relu(x @ parameters[f"trunk.{layer}.weight"] + parameters[f"trunk.{layer}.bias"])
    x = torch.relu(x @ parameters["head.hidden.weight"] + parameters["head.hidden.bias"])
    weight, bias = parameters["head.output.weight"], parameters["head.output.bias"]
    value = x[:, :head_width] @ weight[:, :atoms] + bias[:atoms]
    logits, column = [], atoms
    for k, n in enumerate(branches):
        hidden = x[:, (k + 1) * head_width : (k + 2) * head_width]
        advantage = hidden @ weight[:, column : column + n * atoms] + bias[column : column + n * atoms]
        advantage = advantage.view(len(x), n, atoms)
        logits.append(value[:, None] + advantage - advantage.mean(1, keepdim=True))
        column += n * atoms
    return torch.cat(logits, 1)


def parameters_of(block, m):
    return {spec.name: block.view(spec.name)[m].clone().requires_grad_() for spec in block.specs}


@pytest.mark.parametrize(
    ("state_dim", "branches", "widths"), [(9, (5, 3), (7, 5)), (1, (2,), (3,)), (33, (3, 1, 2), ())]
)
def test_logits_and_gradients_equal_textbook_layers(state_dim, branches, widths):
    network = q_network(state_dim, branches, trunk_widths=widths)
    state = random(2, 6, state_dim, seed=1)
    action = torch.stack([torch.arange(12).view(2, 6) % n for n in branches], 2)
    output = network.chosen_logits(state, action)
    upstream = random(*output.shape, seed=2)
    network.backward(output, upstream)
    for m in range(2):
        parameters = parameters_of(network.block, m)
        logits = plain_logits(parameters, state[m], len(widths), branches, 3, 4)
        first = torch.tensor([span.start for span in branch_slices(branches)])
        chosen = logits.gather(1, (action[m] + first)[..., None].expand(-1, -1, 4))
        torch.testing.assert_close(output[m].detach(), chosen.detach(), rtol=1e-10, atol=1e-10)
        gradients = torch.autograd.grad(chosen, list(parameters.values()), upstream[m])
        for name, gradient in zip(parameters, gradients, strict=True):
            got = network.block.view(name, network.block.gradient)[m]
            torch.testing.assert_close(got, gradient, rtol=1e-10, atol=1e-10)
        atoms = support(torch.full((2,), -1.0).double(), torch.full((2,), 1.0).double(), 4)
        q = network.expected(state, atoms)[m]
        torch.testing.assert_close(q, torch.softmax(logits, -1) @ atoms[m], rtol=1e-10, atol=1e-10)


def test_target_logits_are_the_chosen_logits_without_a_graph():
    network = q_network()
    state, action = random(2, 6, 9, seed=1), torch.ones(2, 6, 2, dtype=torch.int64)
    constant = network.target_logits(state, action)
    assert not constant.requires_grad
    assert torch.equal(constant, network.chosen_logits(state, action).detach())


def test_value_networks_share_the_states_of_their_member():
    network, state = value_network(), random(2, 6, 9, seed=1)
    output = network.values(state)
    assert output.shape == (4, 6)
    upstream = random(4, 6, seed=2)
    network.backward(output, upstream)
    for row in range(4):
        parameters = parameters_of(network.block, row)
        x = state[row % 2]
        for layer in range(2):
            x = torch.relu(x @ parameters[f"trunk.{layer}.weight"] + parameters[f"trunk.{layer}.bias"])
        value = (x @ parameters["output.weight"] + parameters["output.bias"])[:, 0]
        torch.testing.assert_close(output[row].detach(), value.detach(), rtol=1e-10, atol=1e-10)
        gradients = torch.autograd.grad(value, list(parameters.values()), upstream[row])
        for name, gradient in zip(parameters, gradients, strict=True):
            got = network.block.view(name, network.block.gradient)[row]
            torch.testing.assert_close(got, gradient, rtol=1e-10, atol=1e-10)


def test_detached_values_are_those_of_the_first_half():
    network, state = value_network(), random(2, 6, 9, seed=1)
    high = network.detached_values(state)
    assert not high.requires_grad
    assert torch.equal(high, network.values(state)[:2].detach())


def test_head_groups_cover_every_column_once():
    groups = head_groups(3, 4, (5, 2))
    assert groups == (
        (slice(0, 3), slice(0, 4)),
        (slice(3, 6), slice(4, 24)),
        (slice(6, 9), slice(24, 32)),
    )
