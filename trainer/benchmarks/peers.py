"""peer_times: the peers' steps, each in a process of its own, because they reserve the GPU's memory."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

from trainer.errors import FoxtuneError

PeerKey = tuple[str, int, int]  # name, M, B
PEERS = {"torch": ("torch",), "jax": ("jax", "optax")}  # what each of them imports


def available_peers() -> list[str]:
    """Returns the peers whose packages are installed."""
    return [
        name
        for name, needs in PEERS.items()
        if all(importlib.util.find_spec(each) is not None for each in needs)
    ]


def peer_times(names: list[str]) -> dict[PeerKey, float]:
    """Runs peers one after the other.

    Returns:
        (name, M, B) -> microseconds per step of the whole stack.

    Raises:
        FoxtuneError: If a peer fails; its own output stands above the message.
    """
    times: dict[PeerKey, float] = {}
    for name in names:
        for row in peer_rows(name):
            times[row["peer"], row["members"], row["batch"]] = row["us"]
    return times


def peer_rows(name: str) -> list[dict[str, Any]]:
    """Runs ``peer_<name>`` and returns the JSON objects that it prints, one a line.

    Raises:
        FoxtuneError: If it fails; its own output stands above the message.
    """
    module = f"trainer.benchmarks.peer_{name}"
    told = subprocess.run([sys.executable, "-m", module], stdout=subprocess.PIPE, text=True, check=False)
    if told.returncode != 0:
        raise FoxtuneError(f"the peer {module} ended with code {told.returncode}; measure without --peers")
    return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]
