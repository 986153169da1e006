"""Starts or joins the Ray cluster of a search, quietly."""

from __future__ import annotations

import getpass
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hpo.cluster.cluster_address import SCRATCH
from hpo.cluster.ray_start import join_error, require_free_port, start_error
from hpo.config import SearchConfig
from hpo.gpus.resources import Gpu
from hpo.storage.full_disk import full_disk
from trainer.errors import ConfigError
from trainer.wording import plural

MIB = 2**20
OBJECT_STORE_MIB = 96  # beside the market: Ray's own small objects
QUIET = {
    "PYTHONWARNINGS": "",  # of the user's program: where they are errors, Ray's own processes would end
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_THRESHOLD_S": "30",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # the study is the state: Ray's snapshots are never read
}

# For a searcher Ray's default is 1: each slot's process would start when the one before is up, and a trial
# that ends meanwhile would send the one that is starting away, because its own is free.
PENDING_TRIALS = "TUNE_MAX_PENDING_TRIALS_PG"


@dataclass(frozen=True)
class Cluster:
    """A connected cluster.

    Attributes:
        gpus: GPUs that it offers.
        nodes: (name, node id) of the live machines.
        note: One line that says which cluster it is.
    """

    gpus: float
    nodes: tuple[tuple[str, str], ...]
    note: str


@contextmanager
def connected(
    search: SearchConfig,
    gpus: tuple[Gpu, ...],
    concurrent: int,
    market_bytes: int,
    address: str | None = None,
) -> Iterator[Cluster]:
    """Connects to Ray and disconnects in the end.

    Without an address a cluster of its own is started: Ray's default would join any cluster that the
    host's marker file or RAY_ADDRESS names. A cluster that this process is connected to already is used
    and left running.

    Args:
        search: Gives the cores per trial and the threads of one.
        gpus: Offered to a cluster of its own.
        concurrent: Trials at a time; no more processes than that are started.
        market_bytes: Size of the market data, for the object store.
        address: Of the cluster to join, as ``hpo.cluster.cluster_address.running_cluster`` found it.

    Raises:
        RayStartError: If no cluster can be started here.
        ConfigError: If the cluster at the address cannot be joined.
    """
    _be_quiet(search)
    os.environ[PENDING_TRIALS] = str(concurrent)
    own = not ray.is_initialized()
    scratch: Path | None = None
    try:
        if own:
            if address is None:
                require_free_port()
                remove_stale_scratch(_short_folder())
                scratch = Path(tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-", dir=_short_folder()))
                _start(search, gpus, concurrent, market_bytes, scratch)
            else:
                _join(address)
        yield _describe(address)
    finally:
        if own:
            ray.shutdown()
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def require_on_every_node(cluster: Cluster, key: str, path: Path) -> None:
    """Refuses a folder that only this machine has; one machine alone is not asked.

    Raises:
        ConfigError: Naming ``key``, the node and the path.
    """
    if len(cluster.nodes) < 2:
        return
    missing = nodes_without(cluster.nodes, path)
    if missing:
        raise ConfigError(
            key, f"must lie on a disk that every node shares, but node {missing[0]} does not have {path}"
        )


def require_code_on_every_node(cluster: Cluster) -> None:
    """Refuses a joined cluster whose workers would not find this program; one machine alone is not asked.

    Raises:
        ConfigError: Naming the node.
    """

    def finds_code() -> bool:  # nested, so that it is sent whole and not by the name of its module
        from importlib.util import find_spec

        return find_spec("hpo") is not None and find_spec("trainer") is not None

    if len(cluster.nodes) < 2:
        return
    answers = _ask_every_node(cluster.nodes, finds_code)
    missing = [name for (name, _), there in zip(cluster.nodes, answers, strict=True) if not there]
    if missing:
        raise ConfigError(
            "ray.address",
            f"node {missing[0]} does not find foxtune; submit from the repository with "
            "`ray job submit --working-dir .`, or install foxtune on every node",
        )


def nodes_without(nodes: tuple[tuple[str, str], ...], path: Path) -> tuple[str, ...]:
    """Asks every node whether it has ``path``; returns the names of those that do not."""
    answers = _ask_every_node(nodes, os.path.exists, str(path))
    return tuple(name for (name, _), there in zip(nodes, answers, strict=True) if not there)


def remove_stale_scratch(folder: str) -> None:
    """Removes the scratch folders of drivers that were killed before they could."""
    for left in Path(folder).glob(f"{SCRATCH}*-*"):
        owner = left.name.removeprefix(SCRATCH).partition("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)) and left.owner() == getpass.getuser():
            shutil.rmtree(left, ignore_errors=True)


def _start(
    search: SearchConfig, gpus: tuple[Gpu, ...], concurrent: int, market_bytes: int, scratch: Path
) -> None:
    try:
        ray.init(
            address="local",
            num_cpus=concurrent * search.resources.cpu,
            num_gpus=len(gpus),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            object_store_memory=OBJECT_STORE_MIB * MIB + 2 * market_bytes,
            _temp_dir=str(scratch),
        )
    except Exception as error:  # Ray raises plain Exceptions too
        if full_disk(error) is not None:
            raise
        raise start_error(error) from error


def _join(address: str) -> None:
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except Exception as error:  # likewise
        raise join_error(error, address) from error


def _ask_every_node(
    nodes: tuple[tuple[str, str], ...], question: Callable[..., bool], *words: str
) -> list[bool]:
    probe = ray.remote(num_cpus=0)(question)
    asked = [
        probe.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False)).remote(*words)
        for _, node_id in nodes
    ]
    answers: list[bool] = ray.get(asked)
    return answers


def _describe(address: str | None) -> Cluster:
    alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    nodes = tuple((str(node["NodeManagerHostname"]), str(node["NodeID"])) for node in alive)
    found: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    where = "started on this machine" if address is None else f"joined at {address}"
    cpus, gpus = found.get("CPU", 0.0), found.get("GPU", 0.0)
    offered = ", ".join(
        (plural(len(nodes), "node"), plural(cpus, "CPU", "g"), f"{plural(gpus, 'GPU', 'g')} for trials")
    )
    note = f"Ray {ray.__version__} {where}: {offered}"
    return Cluster(gpus, nodes, note)


def _be_quiet(search: SearchConfig) -> None:
    os.environ.update(QUIET)
    os.environ["OMP_NUM_THREADS"] = str(search.trainer.training.threads)
    for name in ("ray", "ray.tune"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Ray prints a paragraph on stdout for every worker that died, with log_to_driver off too.
    ray._private.worker._worker_logs_enabled = False


def _short_folder() -> str:
    # Ray puts sockets below it, and a socket's path may have 107 bytes.
    return "/tmp" if os.access("/tmp", os.W_OK) else tempfile.gettempdir()
