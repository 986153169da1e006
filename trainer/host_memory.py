"""host_memory: how many bytes this process may hold at most."""

from __future__ import annotations

import os
from pathlib import Path

CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")  # "max", or bytes; Linux, control groups version 2


def host_memory() -> int:
    """Returns the bytes of this machine's memory, or of its container's share where that is less.

    Not what is free now: the system gives up its caches, and other programs may end.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = CONTAINER_LIMIT.read_text().strip()
    except OSError:  # no Linux, or control groups of another version
        return machine
    return min(machine, int(limit)) if limit.isdecimal() else machine
