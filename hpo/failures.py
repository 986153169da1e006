"""Failures: what went wrong in a search, and whether it has to end for that."""

from __future__ import annotations

import re

from trainer.wording import plural

DIGITS = re.compile(r"\d+")


class Failures:
    """Counts failed trials and their reasons.

    A trial that fails for its configuration is bad luck until too many do so in a row. An obstacle, as a full
    disk is, would stop any trial: the search ends at once, and no trial is blamed for it.

    Args:
        most_in_a_row: Failed trials one after the other that end the search.
    """

    def __init__(self, most_in_a_row: int) -> None:
        self._most_in_a_row = most_in_a_row
        self._in_a_row = 0
        self._reasons: dict[str, list[str]] = {}
        self.obstacle: str | None = None

    @property
    def too_many(self) -> bool:
        """Whether too many trials failed in a row."""
        return self._in_a_row >= self._most_in_a_row

    @property
    def commonest_reason(self) -> str | None:
        """The reason that most trials failed for, with its count; reasons that differ in digits are one."""
        if not self._reasons:
            return None
        group = max(self._reasons.values(), key=len)
        failed = sum(map(len, self._reasons.values()))
        return f"{group[0]} ({len(group)} of {plural(failed, 'failed trial')})"

    def count(self, reason: str | None) -> None:
        """Notes how a trial ended: why it failed, or ``None``."""
        if reason is None:
            self._in_a_row = 0
        else:
            self._in_a_row += 1
            self._reasons.setdefault(DIGITS.sub("#", reason), []).append(reason)

    def meet(self, obstacle: str) -> None:
        """Notes that the search cannot go on; the first obstacle is kept."""
        self.obstacle = self.obstacle or obstacle
