"""Files written from literal text and read back, for all tests of the readers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trainer.config import DataConfig
from trainer.data.bars import Bars
from trainer.data.sources import load_bars

HEADER = "timestamp,open,high,low,close,volume"


@pytest.fixture
def read(tmp_path) -> Callable[..., Bars]:
    """Writes text or bytes to a file and reads it with the given keys of ``data``."""

    def build(content, name="bars.csv", **keys) -> Bars:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load_bars(DataConfig(path=str(path), **keys))

    return build


@pytest.fixture
def flat() -> Callable[..., str]:
    """Makes a CSV of flat bars (open = high = low = close) from stamps and closes."""

    def build(stamps, closes=None, header=HEADER) -> str:
        closes = [100 + index / 8 for index in range(len(stamps))] if closes is None else closes
        rows = [f"{stamp},{c},{c},{c},{c},1" for stamp, c in zip(stamps, closes, strict=True)]
        return "\n".join([header, *rows]) + "\n"

    return build
