"""Searches started as on a cluster: submitted as a job, by the SLURM script, and refused without the token.

Everything runs on loopback, from a copy of the repository that is not installed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("hpo", "trainer", "search_spaces", "cuda", "deploy")
FILES = (".rayignore", ".gitignore", "README.md", "pyproject.toml")
PATIENCE_SECONDS = 180
HEAVY_BYTES = 3_000_000
FOREIGN = ("RAY_", "TUNE_", "PYTHONPATH", "CUDA_VISIBLE")
SMALL = [
    *("--data", "synthetic:known_answer:400:1", "--epochs", "1", "--folds", "3", "--trials", "2"),
    *("--gpus-per-trial", "0", "--set", "episodes=2", "--set", "episode_length=16", "--set", "batch_size=16"),
    *("--set", "capacity=64", "--set", "trunk_widths=8", "--set", "head_width=8", "--set", "num_atoms=5"),
    *("--set", "updates=2"),
]
HEAVY = (".git/objects/pack", "runs/old/weights.pt", "data/bars.csv", "old.csv", ".venv/lib/torch.so")
PROGRAM = """#!{python}
# Ray's program for a machine where other clusters run too: it starts its cluster in a folder of its own, and
# stops that one alone.
import os, psutil, socket, sys
from ray.scripts import scripts, symmetric_run

folder = os.environ["LAUNCH_FOLDER"]
agents = ("dashboard-agent-listen-port", "dashboard-agent-grpc-port", "runtime-env-agent-port")
if sys.argv[1] == "stop":
    for process in psutil.process_iter(["cmdline"]):
        if any(folder in word for word in process.info["cmdline"] or ()):
            process.kill()
elif sys.argv[1] == "symmetric-run":
    symmetric_run.check_ray_already_started = lambda: False
    symmetric_run.symmetric_run()
else:
    if sys.argv[1] == "start":
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in agents]
        sys.argv += [f"--{{agent}}={{each.getsockname()[1]}}" for agent, each in zip(agents, sockets)]
        sys.argv += [f"--temp-dir={{folder}}", "--object-store-memory=80000000"]
        for each in sockets:
            each.close()
    scripts.main()
"""


@dataclass(frozen=True)
class Launch:
    """A place to launch from.

    Attributes:
        repository: The copy.
        folder: Where Ray keeps the clusters.
        programs: Folder of the programs that the scripts call.
        environment: With the token.
    """

    repository: Path
    folder: Path
    programs: Path
    environment: dict[str, str]

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self.repository,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def write_program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def processes_of(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(
            str(folder) in word for word in process.info["cmdline"] or ()
        ):
            found.append(process)
    return found


def stop_cluster(folder: Path) -> None:
    ours = processes_of(folder)
    for process in ours:
        process.kill()
    psutil.wait_procs(ours, PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """The sources, heavy files that nobody wants to send, and a training that says where its code lies."""
    place = tmp_path_factory.mktemp("launch") / "foxtune"
    for name in SOURCES:
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, place / name)
    with (place / "trainer" / "training.py").open("a") as source:
        source.write('\n__import__("sys").stdout.write(f"code of {__file__}\\n")\n')
    for name in HEAVY:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(b"0" * HEAVY_BYTES)
    return place


@pytest.fixture(scope="module")
def launch(repository, tmp_path_factory):
    """Programs and token for a cluster of our own; its processes are gone in the end."""
    folder = Path(tempfile.mkdtemp(prefix="launch-", dir="/tmp"))  # short: Ray's sockets lie below it
    programs = tmp_path_factory.mktemp("programs")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    environment = {
        **inherited,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        "LAUNCH_FOLDER": str(folder / "job"),
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    made = Launch(repository, folder, programs, environment)
    made.write_program("ray", PROGRAM.format(python=sys.executable))
    yield made
    stop_cluster(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def head(launch):
    """(address, dashboard) of a cluster with a dashboard, which takes jobs."""
    port, dashboard = free_ports(2)
    started = launch.run(
        "ray", "start", "--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=2",
        "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}", "--disable-usage-stats",
    )  # fmt: skip
    assert started.returncode == 0, started.stdout + started.stderr
    yield f"127.0.0.1:{port}", f"http://127.0.0.1:{dashboard}"
    stop_cluster(launch.folder / "job")


@pytest.mark.slow
def test_a_job_submitted_from_the_repository_searches_with_the_code_that_was_sent(launch, head, tmp_path):
    _, dashboard = head
    words = ("python", "-m", "hpo", "tune", "--study", "job", *SMALL)
    sent = ("ray", "job", "submit", "--address", dashboard, "--working-dir", ".", "--")
    done = launch.run(*sent, *words, "--set", f"runs={tmp_path}")
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "joined at " in told
    assert "search finished: 2 complete" in told
    log = (tmp_path / "job" / "trials" / "0000" / "log.txt").read_text()
    assert "/working_dir_files/_ray_pkg_" in log.partition("code of ")[2].splitlines()[0]
    places = launch.folder.glob("job/session_2*/runtime_resources/working_dir_files/*")
    (copy,) = [path for path in places if path.is_dir()]
    files = [path for path in copy.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < HEAVY_BYTES
    assert {path.relative_to(copy).parts[0] for path in files} >= {"hpo", "trainer", "search_spaces", "cuda"}


@pytest.mark.slow
def test_without_the_clusters_token_a_search_is_refused_in_one_sentence(launch, head, tmp_path):
    address, _ = head
    words = (sys.executable, "-m", "hpo", "tune", "--address", address, *SMALL, "--set", f"runs={tmp_path}")
    wrong = launch.run(*words, RAY_AUTH_TOKEN="0" * 64)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith(
        f"foxtune: error: ray.address: the Ray cluster at {address} refuses the token"
    )
    missing = launch.run(*words, RAY_AUTH_TOKEN="", HOME=str(tmp_path))
    assert missing.returncode == 2
    assert "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN" in missing.stderr
    assert [done.stderr.count("\n") for done in (wrong, missing)] == [1, 1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_on_two_nodes_a_database_file_is_refused_and_nothing_is_left_behind(launch, head, tmp_path):
    address, _ = head
    added = launch.run("ray", "start", f"--address={address}", "--num-cpus=1", "--disable-usage-stats")
    assert added.returncode == 0, added.stdout + added.stderr
    words = (sys.executable, "-m", "hpo", "tune", "--address", address, *SMALL, "--set", f"runs={tmp_path}")
    refused = launch.run(*words)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "storage: SQLite serves one machine, but the cluster has 2" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_slurm_script_searches_on_its_nodes_and_goes_on_when_submitted_again(launch, tmp_path):
    activate = tmp_path / "venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text("")
    launch.write_program("scontrol", "#!/bin/sh\necho 127.0.0.1\n")
    launch.write_program("srun", '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n')
    job = {
        "SLURM_SUBMIT_DIR": str(launch.repository),
        "SLURM_JOB_NODELIST": "node[1]",
        "SLURM_JOB_ID": str(secrets.randbelow(10_000)),
        "SLURM_NNODES": "1",
        "SLURM_CPUS_PER_TASK": "2",
        "FOXTUNE_VENV": str(activate.parents[1]),
        "FOXTUNE_RUNS": str(tmp_path / "runs"),
        "LAUNCH_FOLDER": str(launch.folder / "slurm"),
    }
    first = launch.run("bash", "deploy/slurm.sh", *SMALL, **job)
    told = first.stdout + first.stderr
    assert first.returncode == 0, told
    assert "joined at 127.0.0.1:" in told
    assert "search finished: 2 complete" in told
    launch.write_program("srun", '#!/bin/sh\necho "$@"\n')
    again = launch.run("bash", "deploy/slurm.sh", "--trials", "9", **job)
    assert f"-- python -m hpo resume slurm --runs {tmp_path / 'runs'} --address 127.0.0.1:" in again.stdout
    assert again.stdout.endswith(" --trials 9\n")
