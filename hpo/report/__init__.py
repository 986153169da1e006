"""The report of a study: one HTML file that needs nothing else."""

from hpo.report.write import write_report

__all__ = ["write_report"]
