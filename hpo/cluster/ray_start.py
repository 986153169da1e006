"""Puts what goes wrong while Ray starts, or is joined, into one sentence with its cause and its fix."""

from __future__ import annotations

import errno
import os
import re
import socket

from hpo.cluster.cluster_address import KEY, UNSET
from trainer.errors import ConfigError, FoxtuneError

PORT_VARIABLE = "RAY_GCS_SERVER_PORT"
MOST_PORT = 65_535
PORT = re.compile(r"specified port is (\d+)")
SHARED_MEMORY = re.compile(r"object store size \(([\d.]+) GB\) exceeds /dev/shm size \(([\d.]+) GB\)")
VERSIONS = re.compile(r"Ray: (\S+)\s+Python: (\S+)")  # of the cluster, then of this process
MEMORY = ("available for tasks and actors", "greater than the total available memory")
LATE = re.compile(r"time[sd] ?out|overloaded|within \d+ seconds", re.IGNORECASE)


class RayStartError(FoxtuneError):
    """Ray does not start on this machine; the message names the cause and the fix."""


def require_free_port() -> None:
    """Refuses a port that RAY_GCS_SERVER_PORT names and that is taken, which Ray notices after 40 s only.

    Every other port of a cluster of its own Ray looks for until it finds a free one.

    Raises:
        RayStartError: Naming the port, or the variable if it names none.
    """
    named = os.environ.get(PORT_VARIABLE, "")
    if not named:
        return
    if not named.isdecimal() or int(named) > MOST_PORT:
        raise _start_error(
            f"{PORT_VARIABLE}={named!r} is no port", f"unset it, or name one up to {MOST_PORT}"
        )
    with socket.socket() as probe:
        # Connections that have ended take no port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", int(named)))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise _start_error(*_taken(named)) from None
            raise start_error(error) from error


def start_error(error: Exception) -> RayStartError:
    """The user's error for an exception of ``ray.init`` where it was to start a cluster."""
    return _start_error(*_cause(error))


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


def _start_error(cause: str, fix: str) -> RayStartError:
    return RayStartError(f"Ray cannot start on this machine: {cause}; {fix}")


def _taken(port: str) -> tuple[str, str]:
    return (
        f"port {port} is taken",
        f"end the program that listens there, or unset {PORT_VARIABLE}, which names a port",
    )


def _cause(error: Exception) -> tuple[str, str]:
    text = str(error)
    if port := PORT.search(text):
        return _taken(port[1])
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
