"""A study as a search leaves it, and Debian's Chromium to look at its pages with."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import optuna
import pytest

from hpo.__main__ import main
from hpo.benchmarks.large_study import trial_record
from hpo.config import SearchConfig
from hpo.dashboard.study_page import describe_study
from hpo.ledger import StudyLedger
from hpo.storage.storages import open_storage
from hpo.study.attributes import DataRecord, Machine
from hpo.study.definition import StudyDefinition
from hpo.study.run_directory import RunDirectory
from hpo.study.studies import create
from hpo.study.study_records import HOLDOUT, HoldoutUse, Replication, write_replication
from search_spaces import packaged
from trainer.config import validated
from trainer.data.market import load_market
from trainer.evaluation_file import EvaluationRows, write_evaluation
from trainer.reports import EpochReport, LearningReport
from trainer.trial_statistics import STATISTICS_FILE, write_statistics
from trainer.walk_forward import MemberOutcome, score

ROOT = Path(__file__).parents[3]
LEARNING = LearningReport(1.0, 0.1, 0.2, 3.0, 0.0, 0, 0.0, 1e-4)
SEEDS, FOLDS, BARS, EPOCHS, COMPLETE = 2, 3, 120, 3, 12
DAY = 86_400_000_000_000
ABSENT = "needs Debian's packages chromium and chromium-driver (apt-get install chromium chromium-driver)"


@dataclass(frozen=True)
class Shown:
    """A study in ``runs / "shown"`` with its report written."""

    runs: Path
    study: optuna.Study
    report: Path


def outcome(generator, market, drift, epoch):
    """(returns [seeds, folds, bars], report) of an epoch of noise around ``drift``."""
    returns = generator.normal(drift, 0.008, (SEEDS, FOLDS, BARS)) + 0.2 * market
    members = [
        MemberOutcome(seed, fold, returns[seed, fold], market[fold], 12, 7.5, False)
        for seed in range(SEEDS)
        for fold in range(FOLDS)
    ]
    result = score(members, objective="wf_sharpe", min_trades=1, periods_per_year=252.0)
    return returns, EpochReport(epoch, EPOCHS, result, LEARNING, 1.25)


def write_bars(folder, returns, market):
    seed, fold, bar = np.indices(returns.shape)
    rows = EvaluationRows(
        seed=seed.ravel(),
        fold=fold.ravel(),
        time=(fold * BARS + bar + 14_600).ravel() * DAY,
        ret=returns.ravel(),
        position=np.sign(returns).ravel(),
        benchmark=np.broadcast_to(market, returns.shape).ravel(),
        cost=np.full(returns.size, 1e-5),
        impact=np.zeros(returns.size),
    )
    write_evaluation(folder / "evaluation.parquet", rows)


def run_trials(ledger, directory):
    """Twelve trials that end well and, as the last, one that fails in its second epoch."""
    generator = np.random.default_rng(5)
    market = generator.normal(0.0004, 0.01, (FOLDS, BARS))
    for key in map(str, range(COMPLETE + 1)):
        started = ledger.start(key)
        folder = directory.trial(started.number)
        (folder / "log.txt").write_text(f"trial {key} epoch 1: done\nwarning of `{key}` | <b>\n")
        ledger.describe(key, Machine("node-7", "NVIDIA H200 GPU-0123", (("torch", "2.13"),)))
        for epoch in range(1, EPOCHS + 1):
            returns, report = outcome(generator, market, 0.0003, epoch)
            if epoch == 2 and key == str(COMPLETE):
                ledger.fail(key, "TD error NaN at step 7, member 0")
                break
            write_bars(folder, returns, market)
            write_statistics(folder / STATISTICS_FILE, trial_record(returns, market))
            ledger.record(key, (report,))


@pytest.fixture(scope="session")
def shown(tmp_path_factory, fakes) -> Shown:
    runs = tmp_path_factory.mktemp("runs")
    trainer = {
        "data": {"path": "synthetic:known_answer:900:1"},
        "training": {"epochs": EPOCHS, "seeds": SEEDS},
        "walk_forward": {"folds": FOLDS},
    }
    keys = {"study": "shown", "runs": str(runs), "trials": COMPLETE + 1, "stopping": {"pruner": "none"}}
    search = validated(SearchConfig, {**keys, "resources": {"gpu": 0}, "trainer": trainer})
    directory, space = RunDirectory.of(search), packaged()["iql_her"]
    market = load_market(search.trainer)
    storage = open_storage(directory.storage_url(search))
    study = create(storage, "shown", StudyDefinition.of(search, space, market.data_hash), directory)
    directory.write_search(search)
    describe_study(study, search, space, market)
    data = DataRecord.of(market, search.trainer.data.path)
    run_trials(StudyLedger(study, storage, search, space, data, directory, fakes.Silent()), directory)
    uses = [HoldoutUse(f"2026-03-0{day}T10:00:00Z", 3, 13, ((0, 0.4), (1, 0.6)), 0.7, 0.9) for day in (1, 2)]
    study.set_user_attr(HOLDOUT, [asdict(use) for use in uses])
    write_replication(study, Replication("2026-03-03T10:00:00Z", 3, 2, 3, (0.1, 0.3, 0.2)))
    assert main(["report", "shown", "--runs", str(runs)]) == 0
    return Shown(runs, study, directory.path / "report.html")


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium that the tests share; absent, it is a failure where CI=true, else a skip."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(ABSENT)
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = chromium
    # --no-sandbox: root in a container has no user namespace; --hide-scrollbars: they would take width.
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
    for flag in (*flags, "--hide-scrollbars", "--disable-background-networking"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    yield chrome
    chrome.quit()


@pytest.fixture(scope="session")
def dashboard(shown):
    """Address of the dashboard, served by the command itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ("dashboard", "shown", "--runs", str(shown.runs), "--port", str(port))
    with subprocess.Popen(
        [sys.executable, "-m", "hpo", *words],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        address = f"http://127.0.0.1:{port}/dashboard"
        wait_for(address, server)
        yield address
        server.terminate()


def wait_for(address, server):
    deadline = time.monotonic() + 60
    while True:
        assert server.poll() is None, "the dashboard's process has ended"
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            assert time.monotonic() < deadline, "the dashboard does not answer"
            time.sleep(0.1)
