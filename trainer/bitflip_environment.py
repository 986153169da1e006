"""BitFlipEnvironment: flip one bit at a time until a goal pattern is reached.

Andrychowicz et al. 2017, "Hindsight Experience Replay", section 3.1: with a sparse reward it is not
learned without relabelling once n is large, which makes it the test of hindsight. Success does not end
the episode, so a policy must also stay.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.collector import Policy
from trainer.environment import Environment, Observation, StepResult, step_counter
from trainer.errors import ConfigError
from trainer.layout import StateLayout, assemble
from trainer.reference.philox import Purpose, draw

SUCCESS_REWARD = 1.0
STEP_REWARD = -0.01
WORD_BITS = 32
MOST_BITS = 4 * WORD_BITS  # one Philox call
EVALUATION_STEPS = 2**31  # evaluation draws begin here; no training makes as many steps


class BitFlipEnvironment(Environment):
    """n bits and a goal of n bits; the prefix is [desired n | achieved n], both 0 or 1.

    Args:
        keys: [M, 2] int64 Philox keys.
        lanes: E.
        bits: n, also the number of actions of the single branch.
        lane_length: L; an episode fills a lane.
        dtype: Floating type of the states.
        device: Where everything lives.

    Raises:
        ConfigError: For a number of bits outside [1, 128].
    """

    def __init__(
        self,
        keys: Tensor,
        lanes: int,
        bits: int = 8,
        lane_length: int = 8,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> None:
        if not 1 <= bits <= MOST_BITS:
            raise ConfigError("bits", f"`1 <= bits <= {MOST_BITS}` must hold, but got {bits}")
        where = keys.device if device is None else device
        self.layout = StateLayout(
            goal_dim=bits, prefix_dim=2 * bits, table_dim=0, achieved_offset=bits, actions_per_branch=(bits,)
        )
        self.table = None
        self.members, self.lanes, self.lane_length = keys.shape[0], lanes, lane_length
        self.steps = step_counter(where)
        self._keys, self._bits = keys, bits
        shape = (self.members, lanes, 2 * bits)
        self._prefix = torch.zeros(shape, dtype=dtype, device=where)
        self._next_prefix = torch.zeros_like(self._prefix)
        self._row = torch.zeros(shape[:2], dtype=torch.int64, device=where)
        self._reward = torch.zeros(shape[:2], dtype=dtype, device=where)
        self._terminated = torch.zeros(shape[:2], dtype=torch.bool, device=where)

    def with_lanes(self, lanes: int) -> BitFlipEnvironment:
        """Returns a fresh environment of the same task and members with another number of lanes."""
        return BitFlipEnvironment(
            self._keys, lanes, self._bits, self.lane_length, self._prefix.dtype, self._prefix.device
        )

    def begin_lanes(self) -> None:
        """Draws initial bits and goals of every lane."""
        self._prefix[..., : self._bits] = self._draw_bits(Purpose.GOAL)
        self._prefix[..., self._bits :] = self._draw_bits(Purpose.TASK)

    def observation(self) -> Observation:
        """Returns goal and bits of every lane; there is no table, so rows are 0."""
        return Observation(self._prefix, self._row)

    def step(self, action: Tensor, position: int) -> StepResult:
        """Flips bit ``action`` [M, E, 1] in every lane; +1 where that reaches the goal, else -.01."""
        self._next_prefix.copy_(self._prefix)
        achieved = self._next_prefix[..., self._bits :]
        achieved.scatter_(-1, action, 1 - achieved.gather(-1, action))
        reached = (achieved == self._next_prefix[..., : self._bits]).all(dim=-1)
        self._reward.fill_(STEP_REWARD).masked_fill_(reached, SUCCESS_REWARD)
        self._prefix.copy_(self._next_prefix)
        self.steps += 1
        return StepResult(self._next_prefix, self._reward, self._terminated)

    def _draw_bits(self, purpose: Purpose) -> Tensor:
        """Draws n bits per lane: bit i is bit i mod 32 of word i // 32."""
        lanes = torch.arange(self.lanes, device=self.steps.device)
        words = draw(self._keys, purpose, self.steps, lanes)  # [M, E, 4]
        bit = torch.arange(self._bits, device=self.steps.device)
        return ((words[..., bit // WORD_BITS] >> (bit % WORD_BITS)) & 1).to(self._prefix.dtype)


def success_rate(environment: BitFlipEnvironment, policy: Policy, episodes: int) -> list[float]:
    """Measures how often a greedy policy reaches the goal at any step of an episode.

    Args:
        environment: The training environment; only its sizes and keys are used, its lanes stay as they are.
        policy: Greedy policy.
        episodes: Episodes per member, on draws that no training uses.

    Returns:
        One rate in [0, 1] per member.
    """
    trial = environment.with_lanes(episodes)
    trial.steps.fill_(EVALUATION_STEPS)
    trial.begin_lanes()
    solved = torch.zeros(trial.members, episodes, dtype=torch.bool, device=trial.steps.device)
    for position in range(trial.lane_length):
        observation = trial.observation()
        action = policy(assemble(observation.prefix, trial.table, observation.row))
        solved |= trial.step(action, position).reward > 0
    return solved.double().mean(dim=1).tolist()
