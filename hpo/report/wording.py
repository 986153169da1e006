"""How numbers and user strings are written: always with a unit, always escaped."""

from __future__ import annotations

from html import escape
from typing import Any

from trainer import wording

MINUS = "\N{MINUS SIGN}"
NOT_DEFINED = "not defined"
NOT_RECORDED = "not on record"


def plain(value: Any) -> str:
    """Escapes any value for HTML, and for chart labels, which read a part of HTML themselves."""
    return escape(str(value), quote=True)


def number(value: float | None, digits: int = 2, missing: str = NOT_DEFINED) -> str:
    """A signed decimal with a true minus sign."""
    if value is None:
        return missing
    written = f"{value:,.{digits}f}"
    if float(written.replace(",", "")) == 0.0:
        written = written.lstrip("-")
    return written.replace("-", MINUS)


def percent(fraction: float | None, digits: int = 1, missing: str = NOT_DEFINED) -> str:
    """0.0123 as ``1.2 %``; beyond a million percent in powers of ten."""
    if fraction is None:
        return missing
    scaled = fraction * 100.0
    if abs(scaled) >= 1e6:
        return f"{scaled:.1e} %".replace("-", MINUS)
    return f"{number(scaled, digits)} %"


def probability(value: float | None) -> str:
    """A probability in percent that never rounds to certainty."""
    if value is None:
        return NOT_DEFINED
    if value > 0.999:
        return "&gt; 99.9 %"
    if value < 0.001:
        return "&lt; 0.1 %"
    return f"{value * 100:.1f} %"


def years(value: float | None, missing: str = NOT_DEFINED) -> str:
    """Years, with more digits below one."""
    if value is None:
        return missing
    return f"{number(value, 1 if value >= 1 else 2)} years"


def moment(stamp: str) -> str:
    """An ISO 8601 time in UTC as ``2026-03-01 10:00``, to the minute."""
    return stamp[:16].replace("T", " ")


def parameter(value: Any) -> str:
    """A parameter's value, short but unambiguous, escaped."""
    return plain(f"{value:.6g}" if isinstance(value, float) else value)


def plural(count: int, noun: str) -> str:
    """``1 trial``, ``2,000 trials``."""
    return wording.plural(count, noun, ",")
