"""foxtune doctor: a table of what is installed, one verdict and one fix a line."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hpo.commands.command import Command, Context


def _add_arguments(parser: ArgumentParser) -> None:
    del parser  # nothing to say: doctor looks at the machine as it is


def _run(arguments: Namespace, context: Context) -> int:
    from hpo.machine import examine, verdict

    findings = examine()
    widths = [max(len(getattr(finding, key)) for finding in findings) for key in ("part", "found", "state")]
    for finding in findings:
        columns = (finding.part, finding.found, finding.state)
        row = "  ".join(f"{text:{width}}" for text, width in zip(columns, widths, strict=True))
        print(f"{row}  {finding.fix}".rstrip())
    text, usable = verdict(findings)
    print(f"\n{text}")
    return 0 if usable else 1


COMMAND = Command(
    "doctor", "look at Python, torch, CUDA, Ray and Optuna, and say what to fix", _add_arguments, _run
)
