"""What a finished search leaves on the study's page: the report's charts and its verdict."""

from __future__ import annotations

import re
from html import unescape

from hpo.dashboard.notes import with_section
from hpo.report.charts import Chart
from hpo.report.reading import Reading
from hpo.report.verdict import verdict
from hpo.run_directory import RunDirectory

VERDICT = "Verdict"
TITLE_HEIGHT = 40  # pixels
BREAKS = re.compile(r"</p>|</div>|</tr>")
CELLS = re.compile(r"</t[hd]>")
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
    from optuna_dashboard import get_note, save_note, save_plotly_graph_object

    for chart in reading.charts:
        save_plotly_graph_object(reading.study, titled(chart), graph_object_id=chart.identity)
    text = as_text(verdict(reading.record, reading.best, reading.findings))
    save_note(reading.study, with_section(get_note(reading.study), VERDICT, text))


def titled(chart: Chart) -> object:
    """The chart's figure with its title inside, where no page stands around it."""
    import plotly.graph_objects as go

    figure = go.Figure(chart.figure)
    legend_above = any(trace.showlegend is not False and trace.name for trace in figure.data)
    figure.update_layout(
        title={"text": chart.title, "x": 0.01, "y": 0.99, "yanchor": "top", "font": {"size": 15}},
        margin={"t": TITLE_HEIGHT + (24 if legend_above else 0)},
    )
    return figure


def as_text(html: str) -> str:
    """The words of a fragment of the page, a paragraph a line; a row of a table is one, too."""
    lines = (TAGS.sub("", CELLS.sub(" | ", part)) for part in BREAKS.split(html))
    words = (" ".join(unescape(line).split()).strip("| ") for line in lines)
    return "\n\n".join(word for word in words if word)
