import dataclasses
import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trainer.agent import Agent
from trainer.config import TrainerConfig
from trainer.errors import NonFiniteError
from trainer.hyperparameters import Hyperparameters
from trainer.layout import StateLayout
from trainer.networks import QNetwork, ValueNetwork
from trainer.reference.dueling_logits import branch_slices
from trainer.transitions import Batch

CPU = torch.device("cpu")
SHAPE = {"trunk_widths": (7, 6), "head_width": 5, "num_atoms": 9, "batch_size": 8}
BRANCHES = (5, 3)


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def layout(state_dim=9, branches=BRANCHES):
    return StateLayout(
        goal_dim=0, prefix_dim=state_dim, table_dim=0, achieved_offset=0, actions_per_branch=branches
    )


def make_agent(configs, dtype=torch.float64, state_dim=9, branches=BRANCHES, folds=None):
    """One member per configuration; the members differ in their fold."""
    hyper = Hyperparameters.stack(configs, dtype, CPU)
    folds = range(len(configs)) if folds is None else folds
    keys = torch.tensor([[3, fold] for fold in folds])
    return Agent(configs[0], layout(state_dim, branches), hyper, keys, dtype, CPU), hyper


def configs_of(*changes, **common):
    return [TrainerConfig().with_overrides(SHAPE | common | change) for change in changes]


def make_batch(members, batch=8, dtype=torch.float64, state_dim=9, branches=BRANCHES, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*tail):
        return torch.randn(members, batch, *tail, generator=generator, dtype=torch.float64).to(dtype)

    actions = [torch.randint(n, (members, batch), generator=generator) for n in branches]
    return Batch(
        index=torch.zeros(members, batch, dtype=torch.int64),
        state=normal(state_dim),
        action=torch.stack(actions, -1),
        reward=3 * normal(),
        next_state=normal(state_dim),
        terminated=torch.rand(members, batch, generator=generator) < 0.3,
        weight=torch.rand(members, batch, generator=generator, dtype=torch.float64).to(dtype),
    )


def member_of(batch, m):
    return Batch(*(getattr(batch, field.name)[m : m + 1].clone() for field in dataclasses.fields(batch)))


def equal_states(one, other):
    return {name for name in one if not torch.equal(one[name], other[name])} == set()


class PlainMember:
    """The same update by textbook layers, autograd, torch's own clipping and torch's own AdamW."""

    def __init__(self, config, state, m, members):
        self.config, agent = config, config.agent
        shape = config.agent, layout(), members, torch.float64, CPU
        q = QNetwork(*shape)
        q.block.value.copy_(state["q"])
        self.q = {spec.name: torch.nn.Parameter(q.block.view(spec.name)[m].clone()) for spec in q.block.specs}
        self.networks = [self.q]
        if agent.use_iql:
            value = ValueNetwork(agent, layout(), 2 * members, torch.float64, CPU)
            value.block.value.copy_(state["value"])
            for row in (m, members + m):
                views = {spec.name: value.block.view(spec.name)[row].clone() for spec in value.block.specs}
                self.networks.append({name: torch.nn.Parameter(view) for name, view in views.items()})
        slow = blocks_of(agent, state, members)["target"]
        self.slow = {name: slow.view(name)[m].clone() for name in self.followed()}
        self.optimisers = [self._optimiser(network) for network in self.networks]
        self.atoms = torch.linspace(agent.v_min, agent.v_max, agent.num_atoms, dtype=torch.float64)

    def followed(self):
        return self.networks[1] if self.config.agent.use_iql else self.q

    def _optimiser(self, network):
        agent = self.config.agent
        groups = [
            {"params": [p], "weight_decay": agent.weight_decay if name.endswith("weight") else 0.0}
            for name, p in network.items()
        ]
        betas = (agent.adam_beta1, agent.adam_beta2)
        return torch.optim.AdamW(groups, lr=agent.learning_rate, betas=betas, eps=agent.adam_eps)

    def trunk(self, p, x):
        for layer in range(len(self.config.agent.trunk_widths)):
            x = torch.relu(x @ p[f"trunk.{layer}.weight"] + p[f"trunk.{layer}.bias"])
        return x

    def value(self, p, x):
        return (self.trunk(p, x) @ p["output.weight"] + p["output.bias"])[:, 0]

    def logits(self, p, x):
        width, atoms = self.config.agent.head_width, self.config.agent.num_atoms
        hidden = torch.relu(self.trunk(p, x) @ p["head.hidden.weight"] + p["head.hidden.bias"])
        weight, bias = p["head.output.weight"], p["head.output.bias"]
        value = hidden[:, :width] @ weight[:, :atoms] + bias[:atoms]
        result = []
        for k, span in enumerate(branch_slices(BRANCHES)):
            columns = slice((1 + span.start) * atoms, (1 + span.stop) * atoms)
            own = hidden[:, (k + 1) * width : (k + 2) * width]
            advantage = (own @ weight[:, columns] + bias[columns]).view(len(x), -1, atoms)
            result.append(value[:, None] + advantage - advantage.mean(1, keepdim=True))
        return result

    def target(self, batch):
        """The gather form m_j = sum_i p_i max(0, 1 - |clip(x_i) - z_j| / dz)."""
        agent, rows = self.config.agent, torch.arange(len(batch.reward[0]))
        if agent.use_iql:
            probs = torch.ones(len(rows), 1, dtype=torch.float64)
            places = self.value(self.slow, batch.next_state[0])[:, None]
        else:
            best = [
                (torch.softmax(q, -1) @ self.atoms).argmax(1)
                for q in self.logits(self.q, batch.next_state[0])
            ]
            slow = self.logits(self.slow, batch.next_state[0])
            probs = sum(torch.softmax(q, -1)[rows, a] for q, a in zip(slow, best, strict=True)) / len(
                BRANCHES
            )
            places = self.atoms.expand(len(rows), -1)
        running = (~batch.terminated[0]).double()[:, None]
        location = (batch.reward[0][:, None] + agent.gamma * running * places).clamp(agent.v_min, agent.v_max)
        distance = (location[:, :, None] - self.atoms).abs() / (self.atoms[1] - self.atoms[0])
        return (probs[:, :, None] * (1 - distance).clamp(min=0)).sum(1)

    def update(self, batch):
        agent, rows = self.config.agent, torch.arange(len(batch.reward[0]))
        with torch.no_grad():
            target = self.target(batch)
        taken = [q[rows, batch.action[0, :, k]] for k, q in enumerate(self.logits(self.q, batch.state[0]))]
        cross = sum(-(target * torch.log_softmax(q, -1)).sum(1) for q in taken) / len(BRANCHES)
        critic_loss = (batch.weight[0] * cross).mean()
        td_error = cross - torch.special.entr(target).sum(1)
        losses = [critic_loss]
        if agent.use_iql:
            quantity = sum(torch.softmax(q, -1) @ self.atoms for q in taken).detach() / len(BRANCHES)
            taus = (agent.iql_expectile_tau, 1 - agent.iql_expectile_tau)
            for p, tau in zip(self.networks[1:], taus, strict=True):
                u = quantity - self.value(p, batch.state[0])
                losses.append(((tau - (u < 0).double()).abs() * u**2).mean())
        norms = []
        for network, optimiser, loss in zip(self.networks, self.optimisers, losses, strict=True):
            optimiser.zero_grad()
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(network.values(), agent.max_norm))
            optimiser.step()
        for name, p in self.followed().items():
            self.slow[name] += agent.polyak_tau * (p.detach() - self.slow[name])
        return td_error.detach(), losses, norms


def blocks_of(agent_config, state, members):
    """The named tensors of every network kind in a state."""

    def q():
        return QNetwork(agent_config, layout(), members, torch.float64, CPU).block

    def value(networks):
        return ValueNetwork(agent_config, layout(), networks, torch.float64, CPU).block

    if agent_config.use_iql:
        blocks = {"q": q(), "value": value(2 * members), "target": value(members)}
    else:
        blocks = {"q": q(), "target": q()}
    for name, block in blocks.items():
        block.value.copy_(state[name])
    return blocks


def by_member(tensor, members):
    """Any tensor of a state as [networks of a member, members, ...]."""
    stacked = tensor.dim() > 1 and tensor.shape[1] == members  # optimiser tensors already are
    return tensor if stacked else tensor.view(-1, members, *tensor.shape[1:])


@pytest.mark.parametrize("use_iql", [True, False])
def test_three_whole_updates_equal_autograd_with_torchs_own_optimiser(use_iql):
    configs = configs_of(
        {"gamma": 0.9, "iql_expectile_tau": 0.8, "learning_rate": 1e-2, "max_norm": 0.05, "v_min": -2.0},
        {"gamma": 0.0, "iql_expectile_tau": 0.3, "weight_decay": 0.5, "polyak_tau": 0.5, "adam_eps": 1e-3},
        use_iql=use_iql,
    )
    agent, _ = make_agent(configs)
    # a target network unlike the online one: which of the two chooses, and which values, then matters
    start = agent.state_dict()
    start["target"] = make_agent(configs, folds=[8, 9])[0].state_dict()["target"]
    agent.load_state_dict(start)
    plain = [PlainMember(config, agent.state_dict(), m, 2) for m, config in enumerate(configs)]
    for step in range(3):
        batch = make_batch(2, seed=step)
        result = agent.update(batch)
        for m, member in enumerate(plain):
            td_error, losses, norms = member.update(member_of(batch, m))
            torch.testing.assert_close(result.td_error[m], td_error, rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(result.critic_loss[m], losses[0].detach(), rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(result.gradient_norm[m], norms[0], rtol=1e-10, atol=1e-10)
            if use_iql:
                torch.testing.assert_close(
                    result.value_loss[m], (losses[1] + losses[2]).detach(), rtol=1e-10, atol=1e-10
                )
    blocks = blocks_of(configs[0].agent, agent.state_dict(), 2)
    for m, member in enumerate(plain):
        pairs = [(blocks["q"], m, member.q), (blocks["target"], m, member.slow)]
        if use_iql:
            pairs += [(blocks["value"], m, member.networks[1]), (blocks["value"], 2 + m, member.networks[2])]
        for block, row, expected in pairs:
            for name, tensor in expected.items():
                torch.testing.assert_close(block.view(name)[row], tensor.detach(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("members", "batch", "state_dim", "branches", "shape"),
    [
        (3, 1, 33, (5,), {"trunk_widths": (7, 33), "head_width": 7, "num_atoms": 21}),
        (5, 31, 9, (5, 3, 3), {"trunk_widths": (33, 7), "head_width": 33, "num_atoms": 2}),
        (3, 33, 56, (3, 3, 3, 3), {"trunk_widths": (64, 64), "head_width": 32, "num_atoms": 51}),
        (5, 257, 7, (1, 2), {"trunk_widths": (), "head_width": 5, "num_atoms": 7}),
        (3, 257, 1, (5,), {"trunk_widths": (256, 33), "head_width": 128, "num_atoms": 51}),
    ],
)
@pytest.mark.parametrize("use_iql", [True, False])
def test_a_member_of_a_stack_equals_the_member_alone_bit_for_bit(
    dtype, members, batch, state_dim, branches, shape, use_iql
):
    changes = [{"learning_rate": 1e-3 * (m + 1), "gamma": 0.9 + 0.01 * m} for m in range(members)]
    configs = configs_of(*changes, use_iql=use_iql, **shape)
    agent, _ = make_agent(configs, dtype, state_dim, branches)
    alone = [make_agent([configs[m]], dtype, state_dim, branches, folds=[m])[0] for m in range(members)]
    for step in range(2):
        rows = make_batch(members, batch, dtype, state_dim, branches, seed=step)
        results = dataclasses.astuple(agent.update(rows))
        acted, greedy = agent.act(rows.state, torch.tensor(step)), agent.greedy(rows.state)
        for m, single in enumerate(alone):
            own = member_of(rows, m)
            for whole, part in zip(results, dataclasses.astuple(single.update(own)), strict=True):
                assert torch.equal(whole[m], part[0])
            assert torch.equal(acted[m], single.act(own.state, torch.tensor(step))[0])
            assert torch.equal(greedy[m], single.greedy(own.state)[0])
    state = agent.state_dict()
    for m, single in enumerate(alone):
        own = single.state_dict()
        assert torch.equal(state["q"][m], own["q"][0])
        assert torch.equal(state["target"][m], own["target"][0])
        if use_iql:
            assert torch.equal(state["value"][[m, members + m]], own["value"])


@pytest.mark.parametrize("use_iql", [True, False])
def test_learning_rate_zero_set_later_stops_the_weights(use_iql):
    agent, hyper = make_agent(configs_of({}, {}, use_iql=use_iql))
    agent.update(make_batch(2))
    hyper.copy_(Hyperparameters.stack(configs_of({}, {"learning_rate": 0.0}), torch.float64, CPU))
    before = agent.weights_state()
    agent.update(make_batch(2, seed=1))
    after = agent.weights_state()
    assert not torch.equal(before["q"][0], after["q"][0])
    assert torch.equal(before["q"][1], after["q"][1])
    if use_iql:
        assert torch.equal(before["value"][[1, 3]], after["value"][[1, 3]])


def test_an_expectile_set_later_changes_the_value_loss_of_its_member():
    first, _ = make_agent(configs_of({}, {}))
    second, hyper = make_agent(configs_of({}, {}))
    hyper.copy_(Hyperparameters.stack(configs_of({}, {"iql_expectile_tau": 0.9}), torch.float64, CPU))
    one, other = first.update(make_batch(2)), second.update(make_batch(2))
    assert one.value_loss[0] == other.value_loss[0]
    assert one.value_loss[1] != other.value_loss[1]


@pytest.mark.parametrize("use_iql", [True, False])
@pytest.mark.parametrize(
    ("field", "value", "quantity"),
    [
        ("reward", math.nan, "TD error"),
        ("state", math.inf, "TD error"),
        ("next_state", math.nan, "TD error"),
        ("weight", math.nan, "critic loss"),
    ],
)
def test_a_member_that_is_not_finite_is_skipped_and_the_others_go_on(use_iql, field, value, quantity):
    agent, _ = make_agent(configs_of({}, {}, {}, use_iql=use_iql))
    undisturbed, _ = make_agent(configs_of({}, {}, {}, use_iql=use_iql))
    for each in (agent, undisturbed):
        each.update(make_batch(3))
    before = agent.state_dict()
    bad = make_batch(3, seed=1)
    bad.terminated[1, 0] = False
    getattr(bad, field)[1, 0] = value
    result = agent.update(bad)
    undisturbed.update(make_batch(3, seed=1))
    after, expected = agent.state_dict(), undisturbed.state_dict()
    assert result.accept.tolist() == [True, False, True]
    for name in after:
        if name.startswith("guard") or name == "updates":
            continue
        old, new, clean = (by_member(state[name], 3) for state in (before, after, expected))
        assert torch.equal(new[:, 1], old[:, 1])
        assert torch.equal(new[:, [0, 2]], clean[:, [0, 2]])
    agent.guard.check(max_skipped_steps=1, check_finite=False)
    with pytest.raises(NonFiniteError, match=f"^{quantity} NaN at step 1, member 1$"):
        agent.guard.check(max_skipped_steps=0, check_finite=False)


def test_a_step_that_was_skipped_first_leaves_the_bias_correction_at_its_true_step():
    agent, _ = make_agent(configs_of({}))
    late, _ = make_agent(configs_of({}))
    bad = make_batch(1)
    bad.reward[0, 0] = math.nan
    late.update(bad)
    agent.update(make_batch(1, seed=1))
    late.update(make_batch(1, seed=1))
    assert equal_states(agent.weights_state(), late.weights_state())


def test_a_resumed_agent_goes_on_bit_for_bit():
    agent, _ = make_agent(configs_of({}, {}))
    bad = make_batch(2)
    bad.reward[1, 0] = math.nan
    agent.update(bad)
    resumed, _ = make_agent(configs_of({}, {}), folds=[7, 8])
    resumed.load_state_dict(agent.state_dict())
    # the random numbers belong to the key, which is not part of the state
    for step in range(3):
        first, second = agent.update(make_batch(2, seed=step)), resumed.update(make_batch(2, seed=step))
        assert torch.equal(first.td_error, second.td_error)
    assert equal_states(agent.state_dict(), resumed.state_dict())
    assert agent.state_dict()["guard.skipped"].tolist() == [0, 1]


def test_the_online_weights_are_enough_to_act():
    agent, _ = make_agent(configs_of({}, {}))
    agent.update(make_batch(2))
    finished, _ = make_agent(configs_of({}, {}))
    finished.load_weights_state(agent.weights_state())
    state, step = make_batch(2, seed=5).state, torch.tensor(11)
    assert torch.equal(agent.greedy(state), finished.greedy(state))
    assert torch.equal(agent.act(state, step), finished.act(state, step))


def test_states_are_copies():
    agent, _ = make_agent(configs_of({}))
    saved, weights = agent.state_dict(), agent.weights_state()
    before = {name: tensor.clone() for name, tensor in saved.items()}
    agent.update(make_batch(1))
    assert equal_states(saved, before)
    assert torch.equal(weights["q"], before["q"])


def test_the_same_step_draws_the_same_actions_and_the_next_step_others():
    agent, _ = make_agent(configs_of({}, {}))
    state = torch.zeros(2, 64, 9, dtype=torch.float64)
    first, again = agent.act(state, torch.tensor(4)), agent.act(state, torch.tensor(4))
    assert first.shape == (2, 64, 2)
    assert first.dtype == torch.int64
    assert torch.equal(first, again)
    assert not torch.equal(first, agent.act(state, torch.tensor(5)))
    for k, n in enumerate(BRANCHES):
        assert set(first[0, :, k].tolist()) == set(range(n))
    assert not torch.equal(first[0], first[1])


def test_a_high_inverse_temperature_acts_greedily():
    agent, hyper = make_agent(configs_of({}, use_iql=False))
    hyper.inverse_temperature.fill_(1e9)
    state = make_batch(1, batch=32).state
    assert torch.equal(agent.act(state, torch.tensor(0)), agent.greedy(state))


def test_float32_and_float64_start_from_the_same_weights():
    single, double = (make_agent(configs_of({}, {}), dtype)[0] for dtype in (torch.float32, torch.float64))
    for name, weights in single.weights_state().items():
        assert torch.equal(weights.double(), double.weights_state()[name])


def test_the_target_network_starts_as_a_copy_of_what_it_follows():
    with_iql, _ = make_agent(configs_of({}, {}))
    without, _ = make_agent(configs_of({}, {}, use_iql=False))
    assert torch.equal(with_iql.state_dict()["target"], with_iql.state_dict()["value"][:2])
    assert torch.equal(without.state_dict()["target"], without.state_dict()["q"])


def test_rewards_beyond_the_support_are_reported():
    agent, _ = make_agent(configs_of({}, {}))
    batch = make_batch(2)
    batch.reward[0], batch.reward[1] = 100.0, 0.0
    assert agent.update(batch).clipped_target_share.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("use_iql", [True, False])
def test_it_learns_which_arm_of_every_branch_pays(use_iql):
    agent, _ = make_agent(configs_of({"learning_rate": 1e-2, "gamma": 0.0}, use_iql=use_iql), torch.float32)
    for step in range(150):
        batch = make_batch(1, batch=32, dtype=torch.float32, seed=step)
        batch.reward[:] = (batch.action[..., 0] == 3).float() + (batch.action[..., 1] == 1).float()
        agent.update(batch)
    actions = agent.greedy(make_batch(1, batch=32, dtype=torch.float32, seed=999).state)
    assert (actions == torch.tensor([3, 1])).all()


def test_with_iql_v_high_lies_above_v_low_where_returns_vary():
    agent, _ = make_agent(
        configs_of({"learning_rate": 1e-2, "gamma": 0.0, "iql_expectile_tau": 0.9}), torch.float32
    )
    for step in range(150):
        batch = make_batch(1, batch=32, dtype=torch.float32, seed=step)
        batch.reward[:] = batch.action[..., 0].float()
        result = agent.update(batch)
    # E[Q] spreads over 0..4, mean of two branches: its .9 and .1 expectiles differ by more than one half
    assert result.value_gap.item() > 0.5


@pytest.mark.parametrize("use_iql", [True, False])
def test_nothing_is_read_back_to_the_host(use_iql):
    class NoHostReads(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            assert "_local_scalar_dense" not in str(func)
            assert "nonzero" not in str(func)
            return func(*args, **(kwargs or {}))

    agent, _ = make_agent(configs_of({}, {}, use_iql=use_iql))
    batch, step = make_batch(2), torch.tensor(3)
    with NoHostReads():
        agent.update(batch)
        agent.act(batch.state, step)
        agent.greedy(batch.state)
