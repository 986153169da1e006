"""The page around the sections: one file, no resource from anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from plotly.offline import get_plotlyjs

from hpo.report.wording import plain


@dataclass(frozen=True)
class PageSection:
    """A titled part of the page.

    Attributes:
        title: Plain text.
        body: HTML; an empty body drops the section.
    """

    title: str
    body: str


def page(title: str, subtitle: str, sections: Sequence[PageSection]) -> str:
    """The whole document; ``title`` and ``subtitle`` are plain text and are escaped here."""
    style = resources.files("hpo.report").joinpath("page.css").read_text(encoding="utf-8")
    body = "\n".join(
        f"<section><h2>{plain(section.title)}</h2>\n{section.body}</section>"
        for section in sections
        if section.body
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{plain(title)}</title>\n<style>{style}</style>\n"
        f"<script>{get_plotlyjs()}</script></head>\n<body><main>"
        f"<header><h1>{plain(title)}</h1><p>{plain(subtitle)}</p></header>\n{body}\n</main></body></html>\n"
    )
