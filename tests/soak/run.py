"""The long form of the kill test and of the search of many trials; prints what it measured.

    python tests/soak/run.py [--trials N] [--moments N] [--seed N] [--only many,kills,node]

Drivers are killed at random moments, from their start on, over SQLite, a journal file and, where a server
is installed, PostgreSQL; each study gets a SIGINT and a SIGTERM too. A node of two is lost under a search.
Then N stub trials run through the whole path. Any broken promise ends it with an AssertionError.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "hpo"
PARTS = ("kills", "node", "many")
KILLED_TRIALS = 60
STARTING_SECONDS = 12.0  # in a third of the cases the moment is counted from the start of the process
RUNNING_SECONDS = 4.0  # else from the first epoch on


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def make_search(runs: str, trials: int, epochs: int, **keys: Any) -> Any:
    from hpo.config import SearchConfig
    from trainer.config import validated

    base = {
        "study": "s", "runs": runs, "trials": trials, "concurrent": 2, "max_failures": 3,
        "resources": {"gpu": 0}, "trainer": {"training": {"epochs": epochs}},
    }  # fmt: skip
    return validated(SearchConfig, {**base, **keys})


def has_study(search: Any) -> bool:
    from hpo.storage.storages import open_storage
    from hpo.study.studies import exists
    from hpo.tuner import study_url

    url = study_url(search.runs, search.study, search.storage)
    if search.storage is None and not (Path(search.runs) / "s" / "study.db").exists():
        return False
    return exists(open_storage(url), search.study)


def end_at_a_moment(search: Any, moments: random.Random, number: signal.Signals) -> str:
    """Starts a driver, ends it, checks the study, and says when that was."""
    import killed_search as check

    command = "resume" if has_study(search) else "tune"
    process = check.start(command, search, "QuickTraining")
    if number == signal.SIGKILL and moments.random() < 1 / 3:
        seconds, since = moments.uniform(0, STARTING_SECONDS), "start"
    else:
        seconds, since = moments.uniform(0, RUNNING_SECONDS), "first epoch"
        check.wait_for_epochs(process, search, 1)
    time.sleep(seconds)
    if number == signal.SIGKILL:
        check.kill(process)
    else:
        process.send_signal(number)
        code = process.wait(check.PATIENCE_SECONDS)
        assert code in (128 + number, 0), check.output_file(search).read_text()
    if has_study(search):
        done = sum(trial.state.is_finished() for trial in check.require_nothing_running(search))
    else:
        done = 0
    return f"{number.name} {seconds:.2f} s after the {since}: {done} of {search.trials} trials finished"


def kills(folder: Path, moments: random.Random, count: int, name: str, storage: str | None) -> None:
    import killed_search as check
    from fake_training import FakeMarket

    search = make_search(str(folder / name), KILLED_TRIALS, 5, storage=storage, stopping={"pruner": "none"})
    signals = [signal.SIGKILL] * count + [signal.SIGINT, signal.SIGTERM]
    moments.shuffle(signals)
    for number in signals:
        say(f"  {name}: {end_at_a_moment(search, moments, number)}")
    process = check.start("resume" if has_study(search) else "tune", search, "QuickTraining")
    assert process.wait(600) == 0, check.output_file(search).read_text()
    trials = check.require_finished(search, len(signals), FakeMarket())
    runs = sum(map(len, check.epochs_run(search).values()))
    say(f"  {name}: {len(trials)} trials finished, none twice; {runs} epochs begun for {5 * len(trials)}")


@contextmanager
def postgres() -> Iterator[str | None]:
    from postgres_server import PostgresServer, find_binaries

    binaries = find_binaries()
    if binaries is None:
        yield None
        return
    server = PostgresServer(binaries)
    try:
        server.start()
        yield server.url
    finally:
        server.remove()


def lose_a_node(folder: Path) -> None:
    """Two raylets on this machine, one of which is killed with its trial."""
    import killed_search as check
    from fake_training import FakeMarket
    from ray.cluster_utils import Cluster

    from hpo.tuner import tune
    from search_spaces import packaged

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    search = make_search(
        str(folder / "node"), 12, 5, storage=f"journal:{folder / 'node.log'}", stopping={"pruner": "none"},
        ray={"address": cluster.address},
    )  # fmt: skip

    def kill() -> None:
        check.wait_until(lambda: sum(map(len, check.epochs_run(search).values())) > 8, "some epochs")
        cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        outcome = tune(
            search, packaged()["iql_her"], market=FakeMarket(), training="fake_training:SlowTraining"
        )
        killer.join()
        assert (outcome.complete, outcome.failed, outcome.waiting) == (12, 0, 0), outcome.message
        check.require_finished(search, 1, FakeMarket())
    finally:
        cluster.shutdown()
    say(f"  one of two nodes killed: {outcome.message}")


def many(folder: Path, trials: int) -> None:
    import many_trials

    run = many_trials.search_many(make_search(str(folder / "many"), trials, 3))
    assert run.outcome.complete + run.outcome.pruned == trials, run.outcome.message
    asks, last = 1000 * np.asarray(run.ask_seconds), max(trials // 10, 1)
    growth = many_trials.slope(run.memory_mib, trials // 4)
    study = run.outcome.directory.path
    files = sum(path.is_file() for path in study.rglob("*"))
    left = list(study.glob("trials/*/checkpoint*"))
    say(f"  trials                                   {trials} in {run.seconds:.0f} s")
    say(f"  ask, median of the first {last:<5}           {np.median(asks[:last]):.1f} ms")
    say(f"  ask, median of the last {last:<5}            {np.median(asks[-last:]):.1f} ms")
    say(f"  driver's memory, first and last          {run.memory_mib[0]:.0f}, {run.memory_mib[-1]:.0f} MiB")
    say(f"  growth after {trials // 4} trials                 {growth:.3f} MiB a trial")
    say(f"  files of the study                       {files / trials:.2f} a trial, {len(left)} checkpoints")
    assert growth < many_trials.MOST_GROWTH_MIB
    assert left == []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--moments", type=int, default=9, help="kills of the driver, for each storage")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", default=",".join(PARTS))
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(SUPPORT)])
    sys.path[:0] = [str(ROOT), str(SUPPORT)]
    warnings.simplefilter("ignore")
    say(f"soak, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, --seed {arguments.seed}")
    moments = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="foxtune-soak-") as name, postgres() as server:
        folder = Path(name)
        if "kills" in parts:
            storages = {"sqlite": None, "journal": f"journal:{folder / 'study.log'}", "postgres": server}
            for each, storage in storages.items():
                if each == "postgres" and server is None:
                    say("  postgres: no server is installed, left out")
                    continue
                kills(folder, moments, arguments.moments, each, storage)
        if "node" in parts:
            lose_a_node(folder)
        if "many" in parts:
            many(folder, arguments.trials)
    say("soak: every promise was kept")


if __name__ == "__main__":
    main()
