"""ClusterWatch: notices that a cluster has died under a search before Ray ends the process without a word."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import ray

HEAD_SECONDS = 30.0  # Ray's core gives up after 60 s and ends the process on the spot
NODE_SECONDS = 4.0  # likewise after some 15 s where the processes of this machine are gone
PAUSE_SECONDS = 1.0
LEAVE_SECONDS = 5.0


@dataclass(frozen=True)
class Post:
    """A process of the cluster that a search cannot do without.

    Attributes:
        name: For the user.
        host: Where it listens.
        port: Likewise.
        patience: Seconds without a connection after which it is taken for dead.
    """

    name: str
    host: str
    port: int
    patience: float


@contextmanager
def watching(posts: tuple[Post, ...], lost: Callable[[str], None]) -> Iterator[None]:
    """Tries every post once a second while the block runs.

    Where the block does not end soon after a loss, the main thread is held in a call of Ray's core that no
    signal ends. The process is ended from here then, with the line on stderr and exit code 1; the study is as
    after any death of the driver, and the next opening mends it.

    Args:
        posts: What must be there.
        lost: Called once, in another thread, with a line for the user.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(posts, lost, ended), name="cluster watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


def posts_of_this_cluster() -> tuple[Post, ...]:
    """The head of the cluster that this process is connected to, and this machine's own part of it."""
    context = ray.get_runtime_context()
    host, _, port = context.gcs_address.rpartition(":")
    own = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())  # type: ignore[no-untyped-call]
    name = own["NodeManagerHostname"]
    return (
        Post(f"the head at {context.gcs_address}", host, int(port), HEAD_SECONDS),
        Post(
            f"the Ray process of {name}", own["NodeManagerAddress"], int(own["NodeManagerPort"]), NODE_SECONDS
        ),
    )


def _watch(posts: tuple[Post, ...], lost: Callable[[str], None], ended: threading.Event) -> None:
    seen = {post: time.monotonic() for post in posts}
    while not ended.wait(PAUSE_SECONDS):
        for post in posts:
            if _answers(post):
                seen[post] = time.monotonic()
            elif time.monotonic() - seen[post] > post.patience and not ended.is_set():
                line = (
                    f"the Ray cluster is lost: {post.name} has not answered for {post.patience:g} s; "
                    "start it again, then `foxtune resume`"
                )
                lost(line)
                if not ended.wait(LEAVE_SECONDS):
                    sys.stderr.write(f"foxtune: error: {line}\n")
                    sys.stderr.flush()
                    os._exit(1)
                return


def _answers(post: Post) -> bool:
    try:
        with socket.create_connection((post.host, post.port), timeout=post.patience / 2):
            return True
    except OSError:
        return False
