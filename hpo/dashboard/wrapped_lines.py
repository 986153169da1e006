"""Pages of Optuna Dashboard whose long lines are broken: its own styles put a whole attribute on one line.

A trial's configuration and record are user attributes of thousands of characters. Unbroken they make the page
as wide as they are long, and whoever reads the note has to scroll sideways.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

# First the box beside a label of a trial: parameters, times, attributes; its own height shows six lines.
# Then the best value, which a narrow card cuts, and the table of a study's attributes.
STYLE = b"""<style>
p.MuiTypography-body1 + .MuiBox-root { white-space: normal; overflow-wrap: anywhere; max-height: 40vh; }
table.MuiTable-root { min-width: 0; }
h3.MuiTypography-root, td.MuiTableCell-root { overflow-wrap: anywhere; }
</style></head>"""


def wrapped_lines(page: Callable[..., Any]) -> Callable[..., Any]:
    """A plugin of the dashboard's web application: adds the style to pages that routes read from files."""

    @functools.wraps(page)
    def styled(*arguments: Any, **names: Any) -> Any:
        answer = page(*arguments, **names)
        if str(getattr(answer, "content_type", "")).startswith("text/html") and hasattr(answer.body, "read"):
            with answer.body as file:
                answer.body = file.read().replace(b"</head>", STYLE, 1)
            answer.content_length = len(answer.body)
        return answer

    return styled
