"""What a finished search leaves on the study's page: the report's charts and its verdict."""

from __future__ import annotations

import re
from html import unescape

import plotly.graph_objects as go

from hpo.dashboard.notes import table, write_section
from hpo.report.charts import Chart
from hpo.report.reading import Reading
from hpo.report.verdict import verdict
from hpo.study.run_directory import RunDirectory

VERDICT = "Verdict"
BREAKS = re.compile(r"</p>|</div>")
TABLE = re.compile(r"<table[^>]*>(.*?)</table>", re.DOTALL)
ROW = re.compile(r"<tr[^>]*>(.*?)</tr>", re.DOTALL)
CELL = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.DOTALL)
BOLD = re.compile(r"<b>(.*?)</b>")
TAGS = re.compile(r"<[^>]+>")


def publish_unless_driven(reading: Reading, directory: RunDirectory) -> str | None:
    """Calls :func:`publish` as the study's driver; a search that runs keeps the study to itself.

    Args:
        reading: The study, read and judged.
        directory: The study's folder, which holds the driver's lock.

    Returns:
        What to tell the user where nothing was written; None otherwise.
    """
    if not directory.path.is_dir():
        return f"{directory.path} is not on this machine: Optuna Dashboard keeps its older figures"
    driver = directory.live_driver()
    if driver is not None:
        return f"the study is being run by {driver}: Optuna Dashboard gets its figures when that ends"
    with directory.driving(reading.record.name):
        publish(reading)
    return None


def publish(reading: Reading) -> None:
    """Saves the charts as plotly figures of the study and its verdict as a section of the study's note.

    Figures of an earlier call are replaced. To be called by the holder of the driver's lock only.

    Args:
        reading: The study, read and judged.
    """
    from optuna_dashboard import save_plotly_graph_object

    for chart in reading.charts:
        save_plotly_graph_object(reading.study, titled(chart), graph_object_id=chart.identity)
    text = as_markdown(verdict(reading.record, reading.best, reading.findings))
    write_section(reading.study, VERDICT, text)


def titled(chart: Chart) -> go.Figure:
    """The chart's figure with its title inside, where no page stands around it.

    The dashboard's buttons lie over the uppermost pixels and its cards are narrow: the title stands below
    the buttons, cut to its first words, and the legend below the plot.
    """
    figure = go.Figure(chart.figure)
    words = re.split(r"[,:]", chart.title)[0]
    figure.update_layout(
        title={"text": words, "x": 0.02, "yref": "paper", "y": 1.0, "yanchor": "bottom", "pad": {"b": 8}},
        margin={"t": 64},
        legend={"y": -0.2, "yanchor": "top"},
    )
    return figure


def as_markdown(html: str) -> str:
    """The words of a fragment of the page; every table becomes one of Markdown."""
    tables = [_markdown_table(found) for found in TABLE.findall(html)]
    parts = []
    for index, between in enumerate(TABLE.split(html)[:: TABLE.groups + 1]):
        parts += [_words(part) for part in BREAKS.split(between)]
        parts += tables[index : index + 1]
    return "\n\n".join(part for part in parts if part)


def _markdown_table(rows: str) -> str:
    header, *others = ([_words(cell) for cell in CELL.findall(row)] for row in ROW.findall(rows))
    return table(header, others)


def _words(html: str) -> str:
    bold = BOLD.sub(lambda match: f"**{match[1]}**", html)
    return " ".join(unescape(TAGS.sub(" ", bold)).split())
