"""Durations as people write them, in configuration files and on the command line alike."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST = 1e9  # seconds, 31 years; what waits for a time overflows at some 290
PARTS = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
WHOLE = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
PLAIN = re.compile(r"\d+(?:\.\d+)?")


def parse_duration(text: str) -> float | None:
    """Reads ``90s``, ``30m``, ``1h30m`` or plain seconds.

    Returns:
        Seconds, more than 0; ``None`` for anything else.
    """
    seconds = 0.0
    if WHOLE.fullmatch(text):
        seconds = sum(float(number) * SECONDS[unit] for number, unit in PARTS.findall(text))
    elif PLAIN.fullmatch(text):
        seconds = float(text)
    return seconds if seconds > 0 else None


def format_duration(seconds: float) -> str:
    """Writes a duration for people: ``80 s``, ``12 min``, ``3 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def exact_duration(seconds: float) -> str:
    """Writes a setting: its seconds, and whole minutes from two on: ``30 s``, ``1800 s (30 min)``."""
    whole = seconds >= 120 and seconds % 60 == 0
    return f"{seconds:.10g} s" + (f" ({format_duration(seconds)})" if whole else "")


def _read(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    seconds = parse_duration(value)
    if seconds is None:
        raise PydanticCustomError("duration", "be {expected}", {"expected": "a duration like 90s, 30m or 2h"})
    return seconds


Duration = Annotated[float, Field(gt=0, le=LONGEST), BeforeValidator(_read)]
