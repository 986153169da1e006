"""Puts what goes wrong while Ray starts, or is joined, into one sentence with its cause and its fix."""

from __future__ import annotations

import re

from hpo.cluster_address import KEY, UNSET
from trainer.errors import ConfigError, FoxtuneError

PORT = re.compile(r"specified port is (\d+)")
SHARED_MEMORY = re.compile(r"object store size \(([\d.]+) GB\) exceeds /dev/shm size \(([\d.]+) GB\)")
VERSIONS = re.compile(r"Ray: (\S+)\s+Python: (\S+)")  # of the cluster, then of this process
MEMORY = ("available for tasks and actors", "greater than the total available memory")
LATE = re.compile(r"time[sd] ?out|overloaded|within \d+ seconds", re.IGNORECASE)


class RayStartError(FoxtuneError):
    """Ray does not start on this machine; the message names the cause and the fix."""


def start_error(error: Exception) -> RayStartError:
    """The user's error for an exception of ``ray.init`` where it was to start a cluster."""
    cause, fix = _cause(error)
    return RayStartError(f"Ray cannot start on this machine: {cause}; {fix}")


def join_error(error: Exception, address: str) -> ConfigError:
    """The user's error for an exception of ``ray.init`` where it was to join the cluster at ``address``."""
    text = str(error)
    versions = VERSIONS.findall(text)
    if len(versions) == 2:
        (ray, python), (own_ray, own_python) = versions
        reason = (
            f"the Ray cluster at {address} runs Ray {ray} with Python {python}, but this is Ray {own_ray} "
            f"with Python {own_python}; install the cluster's versions here, or {UNSET}"
        )
    elif isinstance(error, TimeoutError) or LATE.search(text):
        reason = (
            f"the Ray cluster at {address} did not answer in time; look at `ray status` there, or {UNSET}"
        )
    else:
        reason = f"cannot join the Ray cluster at {address} ({_line(error)}); check the address, or {UNSET}"
    return ConfigError(KEY, reason)


def _cause(error: Exception) -> tuple[str, str]:
    text = str(error)
    if port := PORT.search(text):
        return (
            f"port {port[1]} is taken",
            "end the program that listens there, or unset RAY_GCS_SERVER_PORT, which names a port",
        )
    if sizes := SHARED_MEMORY.search(text):
        return (
            f"the data needs {sizes[1]} GB of shared memory, but /dev/shm has {sizes[2]} GB free",
            "free some of it, or make it larger (docker run --shm-size, or mount -o remount,size=...)",
        )
    if any(words in text for words in MEMORY):
        return "the data does not fit into its memory", "use a machine with more, or fewer bars"
    if isinstance(error, OSError) and not isinstance(error, TimeoutError | ConnectionError):
        where = "" if error.filename is None else f" ({error.filename})"
        return (
            f"{error.strerror or _line(error)}{where}",
            "free what is used up, or raise the limit (ulimit -n, ulimit -u)",
        )
    if isinstance(error, TimeoutError) or LATE.search(text):
        return (
            "its processes did not come up in time",
            "try again when the machine is less busy or with fewer trials at a time (--concurrent), and look "
            "at the limits (ulimit -n, ulimit -u)",
        )
    return f"{type(error).__name__}: {_line(error)}", "the option --debug shows where"


def _line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
