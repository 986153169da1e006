"""What goes wrong while Ray starts is told in one sentence with cause and fix. Texts as in Ray 2.60."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys

import pytest
import ray

from hpo.cluster.ray_cluster import connected
from hpo.cluster.ray_start import RayStartError, join_error, require_free_port, start_error
from trainer.errors import ConfigError

PORT = """Failed to start GCS.  Last 1 lines of error files:
[2026-11-30 09:32:39,376 C 6391 6391] (gcs_server) grpc_server.cc:134:  An unexpected system state \
has occurred. Check failed: server_ Failed to start the grpc server. The specified port is 46811. This means \
that Ray's core components will not be able to function correctly.
.Please check /tmp/session/logs/gcs_server.out for details. Last connection error: None"""
SHARED_MEMORY = (
    "The configured object store size (12.5 GB) exceeds /dev/shm size (0.067108864 GB). "
    "This will harm performance."
)
MEMORY = (
    "After taking into account object store and redis memory usage, the amount of memory on this node "
    "available for tasks and actors (-191.57 GB) is less than -757% of total."
)
VERSIONS = """Version mismatch: The cluster was started with:
    Ray: 2.9.0
    Python: 3.10.1
This process on 10.0.0.2 was started with:
    Ray: 2.60.0
    Python: 3.11.7
"""


@pytest.mark.parametrize(
    ("error", "cause", "fix"),
    [
        (RuntimeError(PORT), "port 46811 is taken", "unset RAY_GCS_SERVER_PORT"),
        (
            ValueError(SHARED_MEMORY),
            "needs 12.5 GB of shared memory, but /dev/shm has 0.067108864 GB",
            "--shm-size",
        ),
        (ValueError(MEMORY), "the data does not fit into its memory", "use a machine with more"),
        (
            Exception("The current node timed out during startup. This could happen because"),
            "did not come up in time",
            "fewer trials at a time (--concurrent)",
        ),
        (
            RuntimeError("Timed out waiting for file /tmp/x/gcs_server_port_54"),
            "did not come up in time",
            "ulimit -n",
        ),
        (
            OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/tmp/x"),
            "Too many open files (/tmp/x)",
            "raise the limit (ulimit -n",
        ),
        (
            BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)),
            "Resource temporarily unavailable;",
            "ulimit -u",
        ),
        (AssertionError(""), "AssertionError: no message", "--debug"),
        (KeyError("first\nsecond"), "KeyError: 'first", "--debug"),
    ],
)
def test_a_failed_start_names_cause_and_fix_in_one_line(error, cause, fix):
    told = str(start_error(error))
    assert told.startswith("Ray cannot start on this machine: ")
    assert cause in told
    assert fix in told.partition("; ")[2]
    assert "\n" not in told


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (
            RuntimeError(VERSIONS),
            "runs Ray 2.9.0 with Python 3.10.1, but this is Ray 2.60.0 with Python 3.11.7; install",
        ),
        (
            ConnectionError("ray client connection timed out"),
            "the Ray cluster at h:1 did not answer in time; look at `ray status`",
        ),
        (
            Exception("\nHead node session dir not found,\nmore"),
            "cannot join the Ray cluster at h:1 (Head node session dir not found,); check the address",
        ),
    ],
)
def test_a_cluster_that_cannot_be_joined_is_named_with_cause_and_fix_in_one_line(error, cause):
    told = join_error(error, "h:1")
    assert told.key == "ray.address"
    assert cause in str(told)
    assert "leave out --address" in str(told)
    assert "\n" not in str(told)


@pytest.mark.parametrize(("address", "kind"), [(None, RayStartError), ("127.0.0.1:1", ConfigError)])
def test_the_error_of_ray_is_chained_and_nothing_is_left_of_the_start(
    make_search, monkeypatch, tmp_path, address, kind
):
    reason = Exception("The current node timed out during startup.")

    def fail(**options):
        raise reason

    monkeypatch.setattr("hpo.cluster.ray_cluster._short_folder", lambda: str(tmp_path))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)  # of the cluster that other tests share
    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(kind) as refusal, connected(make_search(), (), 1, 0, address):
        pass
    assert refusal.value.__cause__ is reason
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_a_taken_port_is_refused_before_ray_would_wait_for_it(make_search, monkeypatch, tmp_path, host):
    def start(**options):
        raise AssertionError("Ray was started")

    monkeypatch.setattr("hpo.cluster.ray_cluster._short_folder", lambda: str(tmp_path))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)  # of the cluster that other tests share
    monkeypatch.setattr(ray, "init", start)
    with socket.create_server((host, 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("RAY_GCS_SERVER_PORT", str(port))
        with pytest.raises(RayStartError) as refusal, connected(make_search(), (), 1, 0):
            pass
    assert str(refusal.value) == (
        f"Ray cannot start on this machine: port {port} is taken; end the program that listens there, or "
        "unset RAY_GCS_SERVER_PORT, which names a port"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("named", ["gcs", "-1", "65536", "6379.0"])
def test_what_is_no_port_is_refused_naming_the_variable(monkeypatch, named):
    monkeypatch.setenv("RAY_GCS_SERVER_PORT", named)
    with pytest.raises(RayStartError, match=f"RAY_GCS_SERVER_PORT={named!r} is no port; unset it, or"):
        require_free_port()


@pytest.mark.parametrize("named", [None, "", "0"])
def test_without_a_named_port_ray_finds_a_free_one_itself(monkeypatch, named):
    monkeypatch.delenv("RAY_GCS_SERVER_PORT", raising=False)
    if named is not None:
        monkeypatch.setenv("RAY_GCS_SERVER_PORT", named)
    require_free_port()


def test_a_named_port_that_is_free_stays_free(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    monkeypatch.setenv("RAY_GCS_SERVER_PORT", str(port))
    require_free_port()
    with socket.create_server(("127.0.0.1", port)):
        pass


SCRIPT = """
import sys
import hpo.driver
from fake_training import FakeMarket
from hpo.config import SearchConfig
from hpo.cluster.ray_start import RayStartError
from hpo.tuner import tune
from search_spaces import packaged

hpo.driver.size_in_bytes = lambda market: 2**45
try:
    tune(SearchConfig.model_validate_json(sys.argv[1]), packaged()["iql_her"], market=FakeMarket())
except RayStartError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_search_whose_data_no_memory_holds_is_refused_by_ray_itself_and_leaves_nothing(
    fakes, make_search, tmp_path
):
    words = [sys.executable, "-c", SCRIPT, make_search().model_dump_json()]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "TUNE_"))}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == (
        "Ray cannot start on this machine: the data does not fit into its memory; "
        "use a machine with more, or fewer bars\n"
    )
    assert list((tmp_path / "runs").iterdir()) == []


STARTED = """
from hpo.config import SearchConfig
from hpo.cluster.ray_cluster import connected

with connected(SearchConfig(), (), 1, 0) as cluster:
    print(cluster.note)
"""


@pytest.mark.slow
def test_warnings_that_the_user_makes_errors_do_not_end_rays_own_processes():
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    words = [sys.executable, "-c", STARTED]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert "started on this machine: 1 node" in done.stdout, done.stderr
