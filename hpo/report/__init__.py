"""The report of a study: one HTML file that needs nothing else."""

from hpo.report.reading import Reading, read_report
from hpo.report.write import write_page, write_report

__all__ = ["Reading", "read_report", "write_page", "write_report"]
