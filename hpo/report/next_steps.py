"""Commands to type next, fitting what the study holds."""

from __future__ import annotations

import shlex

from hpo.report.records import StudyRecord, TrialRecord
from hpo.report.wording import plain


def next_steps(study: StudyRecord, best: TrialRecord | None) -> str:
    """Commands with a sentence each, HTML."""
    name = shlex.quote(study.name)
    steps: list[tuple[str, str]] = []
    failed = next((trial for trial in study.trials if trial.state == "FAIL"), None)
    if any(trial.state in ("RUNNING", "WAITING") for trial in study.trials):
        steps.append(("Go on with trials that have not ended", f"foxtune resume --study {name}"))
    if best is not None and not best.degenerate:
        steps.append(("Walk the best policy again and compare", f"foxtune replay --study {name} --best"))
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
    return "".join(f"<p>{plain(text)}:</p><pre>{plain(command)}</pre>" for text, command in steps)
