"""Seconds and memory that the report of a large study takes: ``python -m hpo.benchmarks.report_time``."""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import optuna

from hpo.benchmarks.large_study import StudySize, write_study
from hpo.report import write_report
from hpo.storage.storages import open_storage

MIB = 1024.0  # getrusage counts KiB


def main() -> None:
    """Writes a study into a folder that is removed again, reports it, and prints what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("trials", 500), ("seeds", 3), ("bars", 2500), ("folds", 5)):
        parser.add_argument(f"--{name}", type=int, default=value, metavar="N", help=f"default: {value}")
    asked = parser.parse_args()
    size = StudySize(asked.trials, asked.seeds, asked.bars, asked.folds)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        begun = time.perf_counter()
        storage = open_storage(f"sqlite:///{directory}/study.db")
        study = optuna.create_study(study_name="large", storage=storage, direction="maximize")
        write_study(study, directory, size)
        written = time.perf_counter()
        processor = time.process_time()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB
        again = optuna.load_study(study_name="large", storage=open_storage(f"sqlite:///{directory}/study.db"))
        page = write_report(again, directory, directory / "report.html")
        seconds, processor = time.perf_counter() - written, time.process_time() - processor
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB
        sys.stdout.write(
            f"study of {size.trials} trials, {size.seeds} seeds, {size.bars} bars: written in "
            f"{written - begun:.1f} s (peak {before:.0f} MiB)\n"
            f"report: {seconds:.1f} s ({processor:.1f} s of the processor), peak {peak:.0f} MiB, "
            f"{page.stat().st_size / 1e6:.2f} MB\n"
        )


if __name__ == "__main__":
    main()
