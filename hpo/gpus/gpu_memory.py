"""Memory of a trial's GPU: what it waits for before it starts, and what it has used in the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hpo.gpus.nvml import Nvml
from hpo.gpus.pinning import MIB, PinnedGpu
from trainer.errors import CudaSetupError, MemoryPlanError

POLL_SECONDS = 0.5
Answer = TypeVar("Answer")

logger = logging.getLogger("foxtune")


class CudaMemory(Protocol):
    """The part of ``torch.cuda`` that is asked."""

    def mem_get_info(self) -> tuple[int, int]:
        """Free and total bytes of the device."""

    def memory_reserved(self) -> int:
        """Bytes that torch holds in this process."""

    def max_memory_allocated(self) -> int:
        """The most bytes of tensors at a time since the last reset."""

    def reset_peak_memory_stats(self) -> None:
        """Starts counting the maximum anew."""


@dataclass(frozen=True)
class GpuUsage:
    """What a trial has used of its GPU so far.

    Attributes:
        driver: Version of the NVIDIA driver; None where it does not answer.
        peak_mib: Most memory of the trial's tensors at a time.
        used_mib: Memory in use on the device, by all processes.
    """

    driver: str | None
    peak_mib: int
    used_mib: int


class GpuMemory:
    """Asks the driver by UUID; CUDA itself where the driver's library is missing or refuses.

    Args:
        gpu: The device.
        cuda: ``torch.cuda``.
        nvml: The driver's library; None without one.
    """

    def __init__(self, gpu: PinnedGpu, cuda: CudaMemory, nvml: Nvml | None) -> None:
        self._gpu, self._cuda, self._nvml = gpu, cuda, nvml
        self._driver = self._ask(lambda nvml: nvml.driver_version())
        cuda.reset_peak_memory_stats()

    def free(self) -> int:
        """Bytes that are free on the device."""
        found = self._ask(lambda nvml: nvml.memory(self._gpu.uuid).free)
        return self._cuda.mem_get_info()[0] if found is None else found

    def available(self) -> int:
        """Bytes that a new training can have: the free ones, and those that this process holds already."""
        return self.free() + self._cuda.memory_reserved()

    def usage(self) -> GpuUsage:
        """What has been used since this object was made."""
        used = self._ask(lambda nvml: nvml.memory(self._gpu.uuid).used)
        if used is None:
            free, total = self._cuda.mem_get_info()
            used = total - free
        return GpuUsage(self._driver, self._cuda.max_memory_allocated() // MIB, used // MIB)

    def wait_for(
        self,
        needed: int,
        limit: float,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Waits until ``needed`` bytes are available.

        A process that has ended a moment ago, or another trial's, may still hold them.

        Args:
            needed: Bytes of the trial's memory plan.
            limit: Seconds.
            sleep: Waits.
            clock: Seconds that only grow.

        Raises:
            MemoryPlanError: If they are not available after ``limit`` seconds, with needed and free MiB.
        """
        started = clock()
        available = self.available()
        if available < needed:
            logger.info("waiting for %d MiB, %d MiB are free", needed // MIB, available // MIB)
        while available < needed:
            if clock() - started >= limit:
                raise MemoryPlanError(
                    f"the trial needs {needed // MIB} MiB, but {available // MIB} MiB are free on "
                    f"{self._gpu.name} {self._gpu.uuid} after {limit:g} s (resources.memory_wait); end what "
                    "else runs there, or lower replay.capacity or agent.batch_size"
                )
            sleep(POLL_SECONDS)
            available = self.available()

    def _ask(self, question: Callable[[Nvml], Answer]) -> Answer | None:
        if self._nvml is None:
            return None
        try:
            return question(self._nvml)
        except CudaSetupError as error:  # such as a UUID that stands for a slice by its beginning
            logger.info("%s; CUDA is asked instead", error)
            self._nvml = None
            return None
