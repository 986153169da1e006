"""Colours that more than one kind of picture is drawn with."""

from __future__ import annotations

INK = "#1f2933"
GRID = "#e4e7eb"
POLICY = ("#0b6e99", "#b4540a", "#5b7f2b", "#7d4aa5", "#a3274f", "#00796b", "#8d6e00", "#4057b5")  # by seed
