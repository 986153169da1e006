"""Peer: the same trial in plain PyTorch, one member (a seed on a fold) after another.

As a good user writes it: everything on the GPU, lanes vectorised, modules and autograd, fused AdamW, TF32
products, the loss under torch.compile, the rest eager, no CUDA graph. The ledger knows market orders at the
close alone, which costs less than the trainer's. A share of one member's trial is timed and scaled up
linearly: collections, gradient steps and evaluation bars each by their number over all members and epochs.

``python -m trainer.benchmarks.peer_torch_trial`` prints one JSON line.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainer.benchmarks.peer_torch_networks import BranchingQ, trunk
from trainer.benchmarks.whole_trial import configuration, hourly_market
from trainer.config import TrainerConfig
from trainer.data.market_data import MarketData
from trainer.folds import Fold, split

OWN_COLUMNS = 8  # desired and achieved goal, position, equity's move, A, V, progress, bars held
ACHIEVED = 1
COLLECTIONS, STEPS, WALKED = 3, 512, 1000  # timed share of one member's trial


@dataclass
class Account:
    """What the lanes hold, [E] each."""

    position: Tensor
    growth: Tensor
    first_moment: Tensor
    variance: Tensor
    held: Tensor


class PeerTrial:
    """One member: market, networks, replay.

    Args:
        config: Shapes and scalars.
        market: Bars and features.
        fold: Its windows.
        device: Where everything lies.
        compiled: Whether the loss goes through torch.compile.
    """

    def __init__(
        self, config: TrainerConfig, market: MarketData, fold: Fold, device: torch.device, *, compiled: bool
    ) -> None:
        self.config, self.fold, self.device = config, fold, device
        self.features = torch.as_tensor(market.features, device=device).clamp(-5, 5)
        close = torch.as_tensor(market.bars.close, device=device)
        self.moves = (close[1:] / close[:-1] - 1).float()
        self.sigma = self.moves[fold.train_start : fold.train_stop - 1].std()
        environment, agent = config.environment, config.agent
        self.cost = 1e-4 * (environment.fee_bp + environment.half_spread_bp + environment.slippage_bp)
        self.exposures = torch.linspace(-1, 1, environment.actions_per_branch[0], device=device)
        self.atoms = torch.linspace(agent.v_min, agent.v_max, agent.num_atoms, device=device)
        state_dim = OWN_COLUMNS + self.features.shape[1]
        self.q = BranchingQ(config, state_dim).to(device)
        self.high, self.low, self.slow = (
            nn.Sequential(trunk(state_dim, agent.trunk_widths), nn.Linear(agent.trunk_widths[-1], 1)).to(
                device
            )
            for _ in range(3)
        )
        self.slow.load_state_dict(self.high.state_dict())
        self.networks = (self.q, self.high, self.low)
        parameters = [each for network in self.networks for each in network.parameters()]
        rate, decay = agent.learning_rate, agent.weight_decay
        self.optimiser = torch.optim.AdamW(
            parameters, lr=rate, weight_decay=decay, fused=device.type == "cuda"
        )
        self.loss: Callable[..., tuple[Tensor, Tensor]] = (
            torch.compile(self._loss) if compiled else self._loss
        )
        capacity, branches = config.replay.capacity, len(environment.actions_per_branch)
        self.state = torch.zeros(capacity, state_dim, device=device)
        self.following = torch.zeros(capacity, state_dim, device=device)
        self.action = torch.zeros(capacity, branches, dtype=torch.int64, device=device)
        self.reward, self.priority = (torch.zeros(capacity, device=device) for _ in range(2))
        self.last = torch.zeros(capacity, dtype=torch.int64, device=device)
        self.largest = torch.ones((), device=device)
        self.written = 0

    @torch.no_grad()
    def collect(self) -> None:
        """E lanes of L transitions under the advantage-weighted policy, into the replay."""
        lanes, length = self.config.environment.episodes, self.config.environment.episode_length
        span = self.fold.train_stop - length - 1 - self.fold.train_start
        row = self.fold.train_start + torch.randint(span, (lanes,), device=self.device)
        goal = torch.randn(lanes, device=self.device)
        account = self._opened(lanes)
        capacity = self.config.replay.capacity
        slots = (self.written + torch.arange(lanes * length, device=self.device)) % capacity
        slots = slots.view(lanes, length)
        state = self._observed(account, goal, row, 0)
        for step in range(length):
            action = self._sampled(state)
            reward = self._traded(account, action, row + step)
            following = self._observed(account, goal, row + step + 1, step + 1)
            slot = slots[:, step]
            self.state[slot], self.following[slot] = state, following
            self.action[slot], self.reward[slot] = action, reward
            self.last[slot] = slots[:, -1]
            state = following
        self.priority[slots.flatten()] = self.largest**self.config.replay.per_alpha
        self.written += lanes * length

    def learn(self, steps: int) -> Tensor:
        """Gradient steps; returns the mean loss, a device scalar."""
        total = torch.zeros((), device=self.device)
        for _ in range(steps):
            index, batch = self._drawn()
            loss, error = self.loss(*batch)
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            for network in self.networks:
                nn.utils.clip_grad_norm_(network.parameters(), self.config.agent.max_norm, foreach=True)
            self.optimiser.step()
            with torch.no_grad():
                slow, fast = ([each.detach() for each in net.parameters()] for net in (self.slow, self.high))
                torch._foreach_lerp_(slow, fast, self.config.agent.polyak_tau)
                self.largest = torch.maximum(self.largest, error.max())
                self.priority[index] = (error + 1e-6) ** self.config.replay.per_alpha
                total += loss.detach()
        return total / max(steps, 1)

    @torch.no_grad()
    def evaluate(self, bars: int) -> Tensor:
        """Net returns [bars] of the greedy walk over the first bars of the test window."""
        account, length = self._opened(1), self.config.environment.episode_length
        goal = torch.full((1,), self.config.goal.eval, device=self.device)
        row = torch.tensor([self.fold.test_start], device=self.device)
        growth = torch.zeros(bars + 1, device=self.device)
        for bar in range(bars):
            if bar % length == 0:
                account.first_moment = torch.zeros_like(account.growth)
                account.variance = torch.ones_like(account.growth)
            state = self._observed(account, goal, row + bar, bar % length)
            action = torch.stack([value.argmax(1) for value in self._expected(state)], -1)
            self._traded(account, action, row + bar)
            growth[bar + 1] = account.growth[0]
        return growth.diff().expm1()

    def _opened(self, lanes: int) -> Account:
        zeros = [torch.zeros(lanes, device=self.device) for _ in range(5)]
        return Account(zeros[0], zeros[1], zeros[2], zeros[3] + 1.0, zeros[4])

    def _observed(self, account: Account, goal: Tensor, row: Tensor, step: int) -> Tensor:
        length = self.config.environment.episode_length
        achieved = account.growth / (self.sigma * length**0.5)
        progress = torch.full_like(goal, step / length)
        own = (goal, achieved, account.position, account.growth / self.sigma, account.first_moment)
        held = (account.held / length).clamp(max=1.0)
        return torch.cat(
            [torch.stack([*own, account.variance.sqrt(), progress, held], -1), self.features[row]], -1
        )

    def _traded(self, account: Account, action: Tensor, row: Tensor) -> Tensor:
        """Carries the first branch's exposure into the next bar; returns the differential Sharpe ratio."""
        wanted = self.exposures[action[:, 0]]
        traded = (wanted - account.position).abs()
        net = wanted * self.moves[row] - self.cost * traded
        account.growth = account.growth + net.clamp(min=-0.99).log1p()
        account.held = torch.where(traded > 0, 0.0, account.held + 1)
        account.position = wanted
        scaled, rate = net / self.sigma, self.config.environment.adaptation_rate
        change = scaled - account.first_moment
        reward = change / account.variance.clamp(min=1e-4).sqrt()
        account.first_moment = account.first_moment + rate * change
        account.variance = (1 - rate) * (account.variance + rate * change * change)
        return reward.clamp(-10, 10)

    def _expected(self, state: Tensor) -> list[Tensor]:
        return [(logits.softmax(-1) * self.atoms).sum(-1) for logits in self.q(state)]

    def _sampled(self, state: Tensor) -> Tensor:
        level, beta = self.high(state), self.config.agent.iql_advantage_temperature
        weights = [(beta * (value - level).clamp(-10, 10)).softmax(-1) for value in self._expected(state)]
        return torch.cat([torch.multinomial(each, 1) for each in weights], -1)

    @torch.no_grad()
    def _drawn(self) -> tuple[Tensor, tuple[Tensor, ...]]:
        size, replay = self.config.agent.batch_size, self.config.replay
        sums = self.priority.cumsum(0)
        draws = (torch.arange(size, device=self.device) + torch.rand(size, device=self.device)) / size
        index = torch.searchsorted(sums, draws * sums[-1]).clamp_(max=replay.capacity - 1)
        stored = min(self.written, replay.capacity)
        weight = (stored * self.priority[index] / sums[-1]).pow(-replay.per_beta)
        weight = weight / weight.max()
        state, following, reward = self.state[index], self.following[index], self.reward[index].clone()
        count = int(size * self.config.hindsight.her_ratio)
        if count:
            source = index[:count]
            room = (self.last[source] - source) % replay.capacity
            ahead = (room * torch.rand(count, device=self.device)).long() + (room > 0)
            goal = self.following[(source + ahead) % replay.capacity, ACHIEVED]
            state[:count, 0] = following[:count, 0] = goal
            reached = (following[:count, ACHIEVED] - goal).abs() < self.config.hindsight.her_threshold
            reward[:count] += reached.float()
        return index, (state, following, self.action[index], reward, weight)

    def _loss(
        self, state: Tensor, following: Tensor, action: Tensor, reward: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        agent = self.config.agent
        with torch.no_grad():
            point = reward + agent.gamma * self.slow(following)[:, 0]
            place = (point.clamp(agent.v_min, agent.v_max) - agent.v_min) / (self.atoms[1] - self.atoms[0])
            atom = torch.arange(agent.num_atoms, device=self.device)
            target = (1 - (place[:, None] - atom).abs()).clamp(min=0)
        entropy, quality = torch.zeros_like(reward), torch.zeros_like(reward)
        branches = self.q(state)
        for branch, logits in enumerate(branches):
            chosen = action[:, branch, None, None].expand(-1, 1, agent.num_atoms)
            log_probs = logits.gather(1, chosen)[:, 0].log_softmax(-1)
            entropy = entropy - (target * log_probs).sum(-1) / len(branches)
            quality = quality + (log_probs.detach().exp() * self.atoms).sum(-1) / len(branches)
        loss = (weight * entropy).mean()
        tau = agent.iql_expectile_tau
        for network, share in ((self.high, tau), (self.low, 1 - tau)):
            gap = quality - network(state)[:, 0]
            loss = loss + (torch.where(gap >= 0, share, 1 - share) * gap * gap).mean()
        return loss, entropy.detach()


@dataclass(frozen=True)
class PeerShare:
    """Seconds of one collection, one gradient step and one evaluation bar of one member."""

    collection: float
    step: float
    bar: float


def seconds_per_call(run: Callable[[], object], calls: int, device: torch.device) -> float:
    """Seconds until the device has done one call's work, mean over ``calls``."""
    started = time.perf_counter()
    for _ in range(calls):
        run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / calls


def measure(trial: PeerTrial, collections: int, steps: int, bars: int) -> PeerShare:
    """Times a share of a member's trial after a warm-up of each part."""
    trial.collect()
    trial.learn(8)
    trial.evaluate(8)
    if trial.device.type == "cuda":
        torch.cuda.synchronize()
    collection = seconds_per_call(trial.collect, collections, trial.device)
    step = seconds_per_call(lambda: trial.learn(steps), 1, trial.device) / steps
    bar = seconds_per_call(lambda: trial.evaluate(bars), 1, trial.device) / bars
    return PeerShare(collection, step, bar)


def main() -> None:
    """Prints one JSON line."""
    torch.set_float32_matmul_precision("high")
    config, market = configuration("tf32"), hourly_market()
    folds = split(len(market.bars), config.walk_forward).folds
    trial = PeerTrial(config, market, folds[-1], torch.device("cuda"), compiled=True)
    print(json.dumps(dataclasses.asdict(measure(trial, COLLECTIONS, STEPS, WALKED))), flush=True)


if __name__ == "__main__":
    main()
