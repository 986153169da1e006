"""MemoryWatch: GPU memory before, during and after a piece of work, over all processes, from NVML."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from hpo.gpus.nvml import Nvml
from hpo.gpus.pinning import MIB

PAUSE_SECONDS = 0.05
SETTLING_SECONDS = 5.0  # processes that were told to end free their memory when they have


class MemoryWatch:
    """A context manager around the work; afterwards it has what was in use, MiB, one entry per GPU.

    Args:
        uuids: The GPUs; without any every tuple is empty.
        nvml: The driver's library; None leaves every tuple empty.
        settling: Longest wait in seconds for memory to be freed after the work.

    Attributes:
        before: When the block began.
        peak: Highest reading within the block.
        after: When all was free again that had been free before, or after ``settling`` seconds.
    """

    def __init__(self, uuids: tuple[str, ...], nvml: Nvml | None, settling: float = SETTLING_SECONDS) -> None:
        self._uuids, self._nvml, self._settling = uuids, nvml, settling
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.before = self.peak = self.after = self._used()

    def __enter__(self) -> Self:
        self.before = self.peak = self._used()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        limit = time.monotonic() + self._settling
        self.after = self._used()
        while self._above(self.after) and time.monotonic() < limit:
            time.sleep(PAUSE_SECONDS)
            self.after = self._used()

    def _above(self, used: tuple[int, ...]) -> bool:
        return any(now > then for now, then in zip(used, self.before, strict=True))

    def _sample(self) -> None:
        while not self._ended.wait(PAUSE_SECONDS):
            self.peak = tuple(map(max, self.peak, self._used()))

    def _used(self) -> tuple[int, ...]:
        if self._nvml is None:
            return ()
        return tuple(self._nvml.memory(uuid).used // MIB for uuid in self._uuids)
