"""Which running Ray cluster a search joins, found and tried before anything is started. Imports no Ray."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping

import psutil

from trainer.errors import ConfigError

KEY = "ray.address"
AUTO = "auto"
ADDRESS_VARIABLE = "RAY_ADDRESS"
JOB_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set by Ray for the entry point of a submitted job
SCRATCH = "foxtune-"  # the session of a search's own cluster lies below a folder of this name
CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 20.0
TOKEN_FIX = (
    "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to what `ray get-auth-token` prints "
    "on the head node"
)
UNSET = "leave out --address (in a resume: --set ray.address=) to start one for this search"


def joins(address: str | None, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a search joins a running cluster: one was named, or it runs as a job of one."""
    return address is not None or JOB_VARIABLE in environment


def running_cluster(address: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Finds the cluster to join and asks it for an answer.

    Args:
        address: ``HOST:PORT``; ``auto`` for the one that RAY_ADDRESS names or that runs on this machine;
            ``None`` for the cluster of the job that this process is, or none.
        environment: The process's own.

    Returns:
        ``HOST:PORT``, or ``None`` if a cluster of the search's own is to be started.

    Raises:
        ConfigError: If there is none, several could be meant, or it does not answer or not to this token.
    """
    if not joins(address, environment):
        return None
    found = address
    if found in (None, AUTO):
        found = environment.get(ADDRESS_VARIABLE) or AUTO
    if found == AUTO:
        found = the_only_one(clusters_here())
    assert found is not None
    require_answer(found)
    return found


def ignored_address(address: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """A line for the user where RAY_ADDRESS names a cluster that the search does not join."""
    named = environment.get(ADDRESS_VARIABLE)
    if not named or joins(address, environment):
        return None
    return (
        f"RAY_ADDRESS={named} is not joined: the search starts a cluster of its own; --address auto joins it"
    )


def clusters_here() -> tuple[str, ...]:
    """Addresses of the clusters that this user runs on this machine, those of single searches left out."""
    found: set[str] = set()
    for process in psutil.process_iter(["name", "cmdline", "uids"]):
        words = process.info["cmdline"] or ()
        mine = process.info["uids"] is not None and process.info["uids"].real == os.getuid()
        if process.info["name"] == "raylet" and mine and not _is_of_a_search(words):
            found.update(_values("--gcs-address=", words))
    return tuple(sorted(found))


def the_only_one(addresses: tuple[str, ...]) -> str:
    """The address, if there is one.

    Raises:
        ConfigError: If there is none, or several, of which none is chosen silently.
    """
    if len(addresses) == 1:
        return addresses[0]
    if addresses:
        raise ConfigError(
            KEY, f"must name one of the Ray clusters of this machine: {', '.join(addresses)}; got 'auto'"
        )
    raise ConfigError(
        KEY,
        "is 'auto', but no Ray cluster runs on this machine; start one with `ray start --head`, give "
        f"--address HOST:PORT, or {UNSET}",
    )


def require_answer(address: str) -> None:
    """Asks a cluster whether it lives, in a process of its own: Ray's client would wait for minutes.

    Raises:
        ConfigError: If the address is not one, nothing answers there, or the token is missing or wrong.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or "/" in host:
        raise ConfigError(
            KEY,
            f"must be HOST:PORT of a cluster's head node, or 'auto', but got {address!r}; from outside the "
            "cluster use `ray job submit`",
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            KEY, f"nothing answers at {address} ({error}); check the address, or {UNSET}"
        ) from None
    complaint = _health_check(address)
    if complaint is None:
        return
    if "token" in complaint.lower():
        raise ConfigError(
            KEY, f"the Ray cluster at {address} refuses the token, or asks for one; {TOKEN_FIX}"
        )
    raise ConfigError(KEY, f"no Ray cluster of this version answers at {address}; check the address")


def require_lasting(key: str, folder: str) -> None:
    """Refuses to keep results in a job's copy of the working directory, which Ray deletes.

    Raises:
        ConfigError: Naming ``key`` and the folder.
    """
    if JOB_VARIABLE in os.environ and "working_dir_files" in folder.split(os.sep):
        raise ConfigError(
            key,
            f"would lie in the job's copy of the working directory ({folder}), which Ray deletes; give a "
            f"folder that stays: --set {key}=/absolute/path",
        )


def _health_check(address: str) -> str | None:
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        asked = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False, env=_environment()
        )
    except subprocess.TimeoutExpired:
        return "no answer"
    return None if asked.returncode == 0 else asked.stdout + asked.stderr


def _environment() -> dict[str, str]:
    return {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}


def _is_of_a_search(words: Iterable[str]) -> bool:
    folders = _values("--session_dir=", words) | _values("--session-dir=", words)
    return any(part.startswith(SCRATCH) for folder in folders for part in folder.split(os.sep))


def _values(option: str, words: Iterable[str]) -> set[str]:
    return {part.removeprefix(option) for word in words for part in word.split() if part.startswith(option)}
