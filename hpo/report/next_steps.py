"""Commands to type next, fitting what the study holds."""

from __future__ import annotations

import shlex
from pathlib import Path

from hpo.report.records import StudyRecord, TrialRecord
from hpo.report.wording import plain

DEFAULT_RUNS = "runs"


def next_steps(study: StudyRecord, best: TrialRecord | None) -> str:
    """Commands with a sentence each, HTML."""
    name = shlex.quote(study.name)
    steps: list[tuple[str, str]] = []
    failed = next((trial for trial in study.trials if trial.state == "FAIL"), None)
    if any(trial.state in ("RUNNING", "WAITING") for trial in study.trials):
        steps.append(("Go on with trials that have not ended", f"foxtune resume --study {name}"))
    if best is not None and not best.degenerate:
        steps.append(
            ("Train the best trial again and compare its objective", f"foxtune replay --study {name} --best")
        )
        steps.append(
            (
                "Train the best configuration anew, in this process",
                f"foxtune train --from-study {name} --number {best.number} --inline",
            )
        )
    if best is not None and best.degenerate:
        steps.append(
            (
                "See why a degenerate trial does nothing",
                f"foxtune train --from-study {name} --number {best.number} --inline",
            )
        )
    if failed is not None:
        steps.append(
            (
                f"Debug failed trial {failed.number}, stopping at the first value that is not finite",
                f"foxtune train --from-study {name} --number {failed.number} --inline --check-finite",
            )
        )
    if not study.trials:
        steps.append(("Start the search", f"foxtune tune --study {name}"))
    where = runs_flag(study.run_directory)
    return "".join(f"<p>{plain(text)}:</p><pre>{plain(command + where)}</pre>" for text, command in steps)


def runs_flag(run_directory: Path) -> str:
    """Names the folder of runs where it is not the one that a command would look in from here."""
    runs = run_directory.absolute().parent
    return "" if runs == Path(DEFAULT_RUNS).absolute() else f" --runs {shlex.quote(str(runs))}"
