"""Notes of Optuna Dashboard: Markdown that people may edit, so only the own section is ever replaced.

They are attributes of the study in the dashboard's own form: a counter of versions, and the text in parts.
Reading and writing them here spares a search the import of the dashboard, which is a web server with
scikit-learn, SciPy and pandas behind it: seconds before the first trial, and 70 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import optuna

PART_LENGTH = 2045  # characters; the dashboard's, what a column of MySQL takes
HEADING = re.compile(r"^## ", re.MULTILINE)
MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~])")


def write_section(subject: optuna.Study | optuna.Trial, heading: str, body: str) -> None:
    """Puts a section into the note of a study or of a trial; see :func:`with_section`.

    The study's attributes, which hold the notes of all its trials, are read once.
    """
    if isinstance(subject, optuna.Study):
        storage, study_id, prefix = subject._storage, subject._study_id, "dashboard:"
    else:
        storage, study_id = subject.storage, subject.study._study_id
        prefix = f"dashboard:{subject._trial_id}:"
    version, part = f"{prefix}note_ver", f"{prefix}note_str:"
    attributes = storage.get_study_system_attrs(study_id)
    before = sum(name.startswith(part) for name in attributes)
    note = "".join(attributes[f"{part}{index}"] for index in range(before))
    changed = with_section(note, heading, body)
    if changed == note:
        return
    storage.set_study_system_attr(study_id, version, attributes.get(version, 0) + 1)
    parts = [changed[start : start + PART_LENGTH] for start in range(0, len(changed), PART_LENGTH)]
    parts += [""] * (before - len(parts))  # no attribute can be taken away
    for index, text in enumerate(parts):
        storage.set_study_system_attr(study_id, f"{part}{index}", text)


def with_section(note: str, heading: str, body: str) -> str:
    """Replaces the section under ``## heading``, or appends it; the rest of ``note`` stays as it is.

    Args:
        note: What stands there now.
        heading: Plain text.
        body: Markdown without a heading of the second level.
    """
    section = f"## {heading}\n\n{body.strip()}\n"
    start = re.search(rf"^## {re.escape(heading)}$", note, re.MULTILINE)
    if start is None:
        return f"{note.rstrip()}\n\n{section}" if note.strip() else section
    after = HEADING.search(note, start.end())
    rest = "" if after is None else f"\n{note[after.start() :]}"
    return f"{note[: start.start()]}{section}{rest}"


def literal(text: object) -> str:
    """Escapes what Markdown would read as markup, on one line."""
    return MARKUP.sub(r"\\\1", " ".join(str(text).split()))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; cells are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
