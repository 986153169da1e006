"""What a trial waits for and what it reports of its GPU, with a driver that answers from a list."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from hpo.gpus.gpu_memory import GpuMemory, GpuUsage
from hpo.gpus.nvml import Memory
from hpo.gpus.pinning import PinnedGpu
from trainer.errors import CudaSetupError, MemoryPlanError

MIB = 2**20
GPU = PinnedGpu("H200", "GPU-6666-bbbb", 5 * MIB)


@dataclass
class FakeNvml:
    """Free MiB of one GPU of 1000 MiB, the next number at each question and the last one for ever."""

    free: list[int]
    asked: list[str] = field(default_factory=list)
    uuid: str = GPU.uuid

    def memory(self, uuid):
        self.asked.append(uuid)
        if uuid != self.uuid:
            raise CudaSetupError("the NVIDIA driver refuses nvmlDeviceGetHandleByUUID: Not Found")
        free = self.free.pop(0) if len(self.free) > 1 else self.free[0]
        return Memory(1000 * MIB, free * MIB, (1000 - free) * MIB)

    def name(self, uuid):
        return "H200"

    def utilisation(self, uuid):
        return 50

    def driver_version(self):
        return "580.95.05"


@dataclass
class FakeCuda:
    reserved: int = 0
    peak: int = 0
    resets: int = 0

    def mem_get_info(self):
        return 77 * MIB, 100 * MIB

    def memory_reserved(self):
        return self.reserved * MIB

    def max_memory_allocated(self):
        return self.peak * MIB

    def reset_peak_memory_stats(self):
        self.resets += 1
        self.peak = 0


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def wait(memory, needed, limit=60.0):
    clock = Clock()
    memory.wait_for(needed * MIB, limit, clock.sleep, clock)
    return clock.now - 100.0


def test_a_trial_whose_memory_is_free_starts_at_once():
    assert wait(GpuMemory(GPU, FakeCuda(), FakeNvml([300])), 300) == 0.0


def test_a_trial_waits_until_another_process_has_let_go():
    nvml = FakeNvml([100, 100, 250, 300, 0])
    assert wait(GpuMemory(GPU, FakeCuda(), nvml), 300) == 1.5
    assert set(nvml.asked) == {"GPU-6666-bbbb"}


def test_memory_that_this_process_holds_itself_counts_as_free():
    assert wait(GpuMemory(GPU, FakeCuda(reserved=250), FakeNvml([50])), 300) == 0.0


def test_a_trial_that_waits_in_vain_says_what_it_needs_and_what_is_free():
    with pytest.raises(
        MemoryPlanError,
        match=r"^the trial needs 300 MiB, but 120 MiB are free on H200 GPU-6666-bbbb after 60 s "
        r"\(resources.memory_wait\); end ",
    ):
        wait(GpuMemory(GPU, FakeCuda(), FakeNvml([100, 120])), 300)


def test_a_wait_of_no_seconds_looks_once():
    nvml = FakeNvml([100, 400])
    with pytest.raises(MemoryPlanError, match="but 100 MiB are free"):
        wait(GpuMemory(GPU, FakeCuda(), nvml), 300, limit=0.0)


def test_usage_is_the_drivers_and_the_peak_is_counted_from_the_start_of_the_trial():
    cuda = FakeCuda(peak=999)
    memory = GpuMemory(GPU, cuda, FakeNvml([400]))
    assert cuda.resets == 1
    cuda.peak = 123
    assert memory.usage() == GpuUsage("580.95.05", 123, 600)


def test_without_the_drivers_library_cuda_is_asked():
    memory = GpuMemory(GPU, FakeCuda(peak=9), None)
    assert memory.usage() == GpuUsage(None, 0, 23)
    assert memory.free() == 77 * MIB


def test_a_slice_named_by_the_beginning_of_its_uuid_is_unknown_to_the_driver_and_asked_of_cuda():
    nvml = FakeNvml([400], uuid="MIG-377e1111-dddd-4444")
    memory = GpuMemory(PinnedGpu("H200", "MIG-377e", 0), FakeCuda(), nvml)
    assert memory.free() == 77 * MIB
    assert memory.usage() == GpuUsage("580.95.05", 0, 23)
    assert nvml.asked == ["MIG-377e"]


def test_a_slice_named_in_full_is_asked_of_the_driver():
    nvml = FakeNvml([400], uuid="MIG-377e1111-dddd-4444")
    memory = GpuMemory(PinnedGpu("H200", "MIG-377e1111-dddd-4444", 0), FakeCuda(), nvml)
    assert memory.free() == 400 * MIB
