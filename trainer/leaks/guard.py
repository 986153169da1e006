"""What a guard is given and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from trainer.config import TrainerConfig
from trainer.data.market_data import MarketData
from trainer.folds import Split


class Judgement(Enum):
    """How bad it is."""

    CLEAN = "clean"
    WARNING = "warning"
    LEAK = "LEAK"


@dataclass(frozen=True)
class Verdict:
    """What one guard found.

    Attributes:
        guard: What was looked at, for people.
        judgement: A leak refuses the training, a warning does not.
        message: One sentence: the rule and the values, and the fix where something is wrong.
    """

    guard: str
    judgement: Judgement
    message: str


Guard: TypeAlias = Callable[[MarketData, Split, TrainerConfig], Verdict]
