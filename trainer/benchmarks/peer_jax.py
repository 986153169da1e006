"""Peer: the same stacked step in JAX, fifty scanned steps under one jit, as a good user of JAX writes it.

``python -m trainer.benchmarks.peer_jax`` prints one JSON line per shape. PRECISION is tensorfloat32
(default), bfloat16 or float32; DOUBLE_DQN=1 keeps the two Double DQN passes on s'.
"""

from __future__ import annotations

import functools
import json
import math
import os
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import optax

from trainer.benchmarks import step_shapes as shapes

PRECISION = os.environ.get("PRECISION", "tensorfloat32")
DOUBLE_DQN = os.environ.get("DOUBLE_DQN", "0") == "1"
SCANNED = 50
REPEATS = 6
DELTA_Z = (shapes.V_MAX - shapes.V_MIN) / (shapes.NUM_ATOMS - 1)
BRANCHES = len(shapes.ACTIONS_PER_BRANCH)
ATOMS = jnp.linspace(shapes.V_MIN, shapes.V_MAX, shapes.NUM_ATOMS)
OPTIMISER = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(3e-4))


def _linear(key: Any, inputs: int, outputs: int) -> tuple[Any, Any]:
    return jax.random.normal(key, (inputs, outputs)) / math.sqrt(inputs), jnp.zeros(outputs)


def _q_network(key: Any) -> dict[str, Any]:
    keys = jax.random.split(key, 4 + BRANCHES)
    width, head, atoms = shapes.TRUNK_WIDTH, shapes.HEAD_WIDTH, shapes.NUM_ATOMS
    branches = [_linear(k, head, n * atoms) for k, n in zip(keys[4:], shapes.ACTIONS_PER_BRANCH, strict=True)]
    return {
        "1": _linear(keys[0], shapes.STATE_DIM, width),
        "2": _linear(keys[1], width, width),
        "heads": _linear(keys[2], width, head * (BRANCHES + 1)),
        "value": _linear(keys[3], head, atoms),
        "branches": branches,
    }


def _value_network(key: Any) -> list[Any]:
    keys = jax.random.split(key, 3)
    width = shapes.TRUNK_WIDTH
    sizes = ((shapes.STATE_DIM, width), (width, width), (width, 1))
    return [_linear(k, *size) for k, size in zip(keys, sizes, strict=True)]


def _affine(layer: tuple[Any, Any], x: Any) -> Any:
    return x @ layer[0] + layer[1]


def q_logits(network: dict[str, Any], state: Any) -> list[Any]:
    """Logits [B, n_k, Z] of every branch of one member."""
    x = jax.nn.relu(_affine(network["1"], state))
    x = jax.nn.relu(_affine(network["2"], x))
    hidden = jnp.split(jax.nn.relu(_affine(network["heads"], x)), BRANCHES + 1, -1)
    value = _affine(network["value"], hidden[0])[:, None]
    logits = []
    for layer, part, actions in zip(network["branches"], hidden[1:], shapes.ACTIONS_PER_BRANCH, strict=True):
        advantage = _affine(layer, part).reshape(-1, actions, shapes.NUM_ATOMS)
        logits.append(value + advantage - advantage.mean(1, keepdims=True))
    return logits


def values(network: list[Any], state: Any) -> Any:
    """V(s) [B] of one member."""
    x = jax.nn.relu(_affine(network[0], state))
    x = jax.nn.relu(_affine(network[1], x))
    return _affine(network[2], x)[:, 0]


def sample(data: dict[str, Any], priority: Any, key: Any, size: int) -> tuple[Any, tuple[Any, ...]]:
    """Draws a batch by priority and relabels its first half."""
    capacity, count = priority.shape[0], int(size * shapes.HER_RATIO)
    draw_key, donor_key = jax.random.split(key)
    sums = jnp.cumsum(priority)
    draws = (jnp.arange(size) + jax.random.uniform(draw_key, (size,))) / size * sums[-1]
    index = jnp.clip(jnp.searchsorted(sums, draws), 0, capacity - 1)
    weight = (capacity * priority[index] / sums[-1]) ** -0.4
    weight = weight / weight.max()
    names = ("state", "next_state", "action", "reward", "terminated")
    state, following, action, reward, terminated = (data[name][index] for name in names)
    source = index[:count]
    room = data["last"][source] - source
    donor = source + (room * jax.random.uniform(donor_key, (count,))).astype(jnp.int32)
    goal, achieved = data["next_state"][donor][:, 0], following[:count, 0]
    state = state.at[:count, 0].set(goal)
    following = following.at[:count, 0].set(goal)
    reward = reward.at[:count].set(jnp.where(jnp.abs(achieved - goal) < 0.01, 1.0, -0.01))
    weight = weight.at[:count].set(1.0)
    return index, (state, following, action, reward, terminated, weight)


def _expected(logits: Any) -> Any:
    return (jax.nn.softmax(logits, -1) * ATOMS).sum(-1)


def _double_dqn(online: dict[str, Any], target: dict[str, Any], following: Any) -> Any:
    total = 0.0
    for chosen, judged in zip(q_logits(online, following), q_logits(target, following), strict=True):
        best = _expected(chosen).argmax(-1)[:, None]
        total = total + jnp.take_along_axis(_expected(judged), best, 1).mean()
    return total


def one_step(state: dict[str, Any], data: dict[str, Any], key: Any, size: int) -> tuple[dict[str, Any], Any]:
    """One gradient step of one member."""
    index, batch = sample(data, state["priority"], key, size)
    observed, following, action, reward, terminated, weight = batch
    place = reward + shapes.GAMMA * (1 - terminated) * values(state["high_target"], following)
    place = (jnp.clip(place, shapes.V_MIN, shapes.V_MAX) - shapes.V_MIN) / DELTA_Z
    target = jnp.clip(1 - jnp.abs(place[:, None] - jnp.arange(shapes.NUM_ATOMS)), 0)
    extra = _double_dqn(state["online"]["q"], state["q_target"], following) if DOUBLE_DQN else 0.0

    def loss(online: dict[str, Any]) -> tuple[Any, Any]:
        entropy = quality = 0.0
        for branch, logits in enumerate(q_logits(online["q"], observed)):
            chosen = jnp.take_along_axis(logits, action[:, branch][:, None, None], 1)[:, 0]
            log_probs = jax.nn.log_softmax(chosen, -1)
            entropy -= (target * log_probs).sum(-1)
            quality += jax.lax.stop_gradient((jnp.exp(log_probs) * ATOMS).sum(-1))
        entropy, quality = entropy / BRANCHES, quality / BRANCHES
        total = (weight * entropy).mean()
        for name, tau in (("high", 0.7), ("low", 0.3)):
            gap = quality - values(online[name], observed)
            total += (jnp.where(gap >= 0, tau, 1 - tau) * gap**2).mean()
        return total, entropy

    (total, error), gradient = jax.value_and_grad(loss, has_aux=True)(state["online"])
    change, optimiser = OPTIMISER.update(gradient, state["optimiser"], state["online"])
    online = optax.apply_updates(state["online"], change)
    fresh = int(size * shapes.HER_RATIO)
    priority = state["priority"].at[index[fresh:]].set((jnp.abs(error[fresh:]) + 1e-6) ** 0.6)

    def follow(slow: Any, fast: Any) -> Any:
        return jax.tree.map(lambda old, new: old + 0.005 * (new - old), slow, fast)

    after = {
        "online": online,
        "optimiser": optimiser,
        "q_target": follow(state["q_target"], online["q"]),
        "high_target": follow(state["high_target"], online["high"]),
        "priority": priority,
    }
    return after, (total, extra)


def initial(key: Any, capacity: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """State and stored transitions of one member."""
    keys = jax.random.split(key, 7)
    online = {"q": _q_network(keys[0]), "high": _value_network(keys[1]), "low": _value_network(keys[2])}
    data = {
        "state": jax.random.normal(keys[3], (capacity, shapes.STATE_DIM)),
        "next_state": jax.random.normal(keys[4], (capacity, shapes.STATE_DIM)),
        "action": jax.random.randint(keys[5], (capacity, BRANCHES), 0, 3),
        "reward": jax.random.normal(keys[6], (capacity,)) * 0.1,
        "terminated": jnp.zeros(capacity),
        "last": (jnp.arange(capacity) // shapes.EPISODE + 1) * shapes.EPISODE - 1,
    }
    state = {
        "online": online,
        "optimiser": OPTIMISER.init(online),
        "q_target": jax.tree.map(jnp.copy, online["q"]),
        "high_target": jax.tree.map(jnp.copy, online["high"]),
        "priority": jnp.ones(capacity),
    }
    return state, data


def measure(shape: shapes.Shape) -> float:
    """Median microseconds of one step of the whole stack."""
    build = jax.jit(jax.vmap(functools.partial(initial, capacity=shape.capacity)))
    state, data = build(jax.random.split(jax.random.PRNGKey(0), shape.members))
    step = jax.vmap(functools.partial(one_step, size=shape.batch_size))

    @functools.partial(jax.jit, donate_argnums=0)
    def run(state: Any, key: Any, data: Any) -> tuple[Any, Any]:
        def body(carry: Any, key: Any) -> tuple[Any, Any]:
            return step(carry, data, jax.random.split(key, shape.members))

        return jax.lax.scan(body, state, jax.random.split(key, SCANNED))

    times = []
    for repeat in range(REPEATS + 1):
        started = time.perf_counter()
        state, told = run(state, jax.random.PRNGKey(repeat), data)
        jax.block_until_ready(told)
        times.append((time.perf_counter() - started) / SCANNED)
    return 1e6 * statistics.median(times[1:])  # the first call also compiles


def main() -> None:
    """Prints one JSON line per shape."""
    jax.config.update("jax_default_matmul_precision", PRECISION)
    for shape in shapes.SHAPES:
        row = {"peer": "jax", "members": shape.members, "batch": shape.batch_size, "precision": PRECISION}
        row |= {"double_dqn": DOUBLE_DQN, "us": round(measure(shape), 1)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
