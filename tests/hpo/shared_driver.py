"""A driver without Ray, for the tests of several on one study: runs stub trials until none is left.

    python shared_driver.py URL RUNS TRIALS [KILL_AT]

With KILL_AT the process kills itself when it has started so many trials and reported once.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import fake_training
import optuna

from hpo.config import SearchConfig
from hpo.ledger import StudyLedger
from hpo.storage.storages import open_storage
from hpo.study.attributes import DataRecord
from hpo.study.run_directory import RunDirectory
from hpo.study.shared_study import shared_study
from hpo.study.studies import stored_definition
from trainer.config import validated

DATA = DataRecord("fake", "fake", "d", 252.0, 10, "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z")


def main(url: str, runs: str, trials: int, kill_at: int | None) -> None:
    keys = {"study": "s", "runs": runs, "trials": trials, "storage": url, "resources": {"gpu": 0}}
    search = validated(SearchConfig, keys)
    storage = open_storage(url)
    study = optuna.load_study(storage=storage, study_name="s")
    shared = shared_study(study, storage)
    space = stored_definition(storage, "s").space
    directory = RunDirectory.of(search)
    ledger = StudyLedger(study, storage, search, space, DATA, directory, fake_training.Silent(), shared)
    started = 0
    with shared.signed_in():
        while not ledger.exhausted:
            if ledger.waits_for_others:
                time.sleep(0.1)
                continue
            trial = ledger.start("t")
            if trial is None:
                continue
            started += 1
            for epoch in (1, 2):
                report = fake_training.fake_report(fake_training.fake_score(trial.config, epoch), epoch, 2)
                if epoch == 2 and started == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                ledger.record("t", (report,))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else None)
