"""Which Ray cluster a search joins: never one that nobody named."""

import os
import socket
from types import SimpleNamespace

import psutil
import pytest

from hpo.cluster import cluster_address
from hpo.cluster.cluster_address import (
    clusters_here,
    ignored_address,
    joins,
    require_answer,
    require_lasting,
    running_cluster,
    the_only_one,
)
from trainer.errors import ConfigError

JOB = {"RAY_JOB_CONFIG_JSON_ENV_VAR": "{}", "RAY_ADDRESS": "10.0.0.1:6379"}


def raylet(address, session="/tmp/ray/session_1", user=None, name="raylet"):
    words = [
        "/x/raylet",
        f"--session_dir={session}",
        f"--python_worker_command=python --gcs-address={address}",
    ]
    owner = SimpleNamespace(real=os.getuid() if user is None else user)
    return SimpleNamespace(info={"name": name, "cmdline": words, "uids": owner})


@pytest.fixture
def running(monkeypatch):
    """Lets the machine run these processes."""

    def let(*processes):
        monkeypatch.setattr(psutil, "process_iter", lambda attributes: iter(processes))

    return let


@pytest.fixture
def answering(monkeypatch):
    """Lets every cluster answer; returns the addresses that were asked."""
    asked = []
    monkeypatch.setattr(cluster_address, "require_answer", asked.append)
    return asked


def test_a_search_without_an_address_joins_nothing_but_the_cluster_of_its_own_job(answering):
    assert running_cluster(None, {}) is None
    assert running_cluster(None, {"RAY_ADDRESS": "10.0.0.1:6379"}) is None
    assert answering == []
    assert running_cluster(None, JOB) == "10.0.0.1:6379"
    assert answering == ["10.0.0.1:6379"]
    assert not joins(None, {})
    assert joins(None, JOB)


def test_a_cluster_that_only_the_environment_names_is_ignored_and_that_is_said():
    line = ignored_address(None, {"RAY_ADDRESS": "10.0.0.1:6379"})
    assert line.startswith("RAY_ADDRESS=10.0.0.1:6379 is not joined")
    assert "--address auto" in line
    assert ignored_address("auto", {"RAY_ADDRESS": "10.0.0.1:6379"}) is None
    assert ignored_address(None, JOB) is None
    assert ignored_address(None, {}) is None


def test_auto_means_the_cluster_of_the_environment_and_else_the_only_one_here(running, answering):
    running(raylet("10.0.0.2:6379"), raylet("10.0.0.2:6379"))
    assert running_cluster("auto", {"RAY_ADDRESS": "10.0.0.1:6379"}) == "10.0.0.1:6379"
    assert running_cluster("auto", {"RAY_ADDRESS": "auto"}) == "10.0.0.2:6379"
    assert running_cluster("auto", {}) == "10.0.0.2:6379"
    assert running_cluster("10.0.0.3:6379", JOB) == "10.0.0.3:6379"


def test_clusters_of_other_users_and_of_single_searches_are_not_found(running):
    running(
        raylet("10.0.0.1:1", user=os.getuid() + 1),
        raylet("10.0.0.2:2", session="/tmp/foxtune-17-abc/session_1"),
        raylet("10.0.0.3:3", name="python"),
        SimpleNamespace(info={"name": "raylet", "cmdline": None, "uids": None}),
        raylet("10.0.0.4:4"),
    )
    assert clusters_here() == ("10.0.0.4:4",)


def test_of_several_clusters_none_is_chosen_and_none_at_all_is_said_with_the_ways_out():
    assert the_only_one(("10.0.0.1:1",)) == "10.0.0.1:1"
    with pytest.raises(ConfigError, match=r"^ray\.address: .*10\.0\.0\.1:1, 10\.0\.0\.2:2"):
        the_only_one(("10.0.0.1:1", "10.0.0.2:2"))
    with pytest.raises(ConfigError, match=r"^ray\.address: .*no Ray cluster runs on this machine") as refusal:
        the_only_one(())
    assert "ray start --head" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("address", ["ray://head:10001", "http://head:8265", "head", ":6379", "head:x"])
def test_what_is_no_address_of_a_head_node_is_refused(address):
    with pytest.raises(ConfigError, match="must be HOST:PORT"):
        require_answer(address)


def test_an_address_where_nothing_listens_is_refused_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ConfigError, match=r"nothing answers at 127\.0\.0\.1:\d+ .*refused"):
            require_answer(f"127.0.0.1:{taken.getsockname()[1]}")


@pytest.mark.parametrize(
    ("complaint", "message"),
    [
        ("ray.exceptions.AuthenticationError: RPC error: InvalidAuthToken", "refuses the token, or asks for"),
        ("Check failed: token mode but no token file", "refuses the token, or asks for one"),
        ("no answer", "no Ray cluster of this version answers"),
    ],
)
def test_a_cluster_that_does_not_let_the_search_in_is_named_with_the_fix(monkeypatch, complaint, message):
    monkeypatch.setattr(cluster_address, "_health_check", lambda address: complaint)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConfigError, match=message) as refusal:
            require_answer(address)
    assert "\n" not in str(refusal.value)
    assert ("RAY_AUTH_TOKEN_PATH" in str(refusal.value)) == ("token" in message)


def test_a_job_does_not_keep_results_where_ray_deletes_them(monkeypatch):
    copy = "/tmp/ray/session/runtime_resources/working_dir_files/_ray_pkg_1/runs"
    monkeypatch.delenv("RAY_JOB_CONFIG_JSON_ENV_VAR", raising=False)
    require_lasting("runs", copy)
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    require_lasting("runs", "/shared/runs")
    with pytest.raises(ConfigError, match="which Ray deletes") as refusal:
        require_lasting("runs", copy)
    assert "--set runs=/absolute/path" in str(refusal.value)
