"""The calls into the driver's library, made into one that is compiled here and into the real one."""

from __future__ import annotations

import subprocess

import pytest

from hpo.gpus.nvml import DriverNvml, Memory, find_nvml
from trainer.errors import CudaSetupError

SOURCE = r"""
#include <stdio.h>
#include <string.h>
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } rates_t;
static int ready = 0, device;
int nvmlInit_v2(void) { ready = 1; return INIT; }
const char *nvmlErrorString(int code) { return code == 6 ? "Not Found" : "Driver Not Loaded"; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
  if (!ready || strcmp(uuid, "GPU-6666-bbbb")) return 6;
  *handle = &device;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
  if (handle != &device) return 6;
  memory->total = 150ull << 30; memory->free = 149ull << 30; memory->used = 1ull << 30;
  return 0;
}
int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
  return handle == &device ? snprintf(name, length, "NVIDIA H200") < 0 : 6;
}
int nvmlDeviceGetUtilizationRates(void *handle, rates_t *rates) {
  if (handle != &device) return 6;
  rates->gpu = 93; rates->memory = 41;
  return 0;
}
int nvmlSystemGetDriverVersion(char *version, unsigned length) {
  return snprintf(version, length, "580.95.05") < 0;
}
"""


def library(folder, init):
    source, built = folder / "nvml.c", folder / f"libnvml{init}.so"
    source.write_text(SOURCE)
    command = ["cc", "-shared", "-fPIC", f"-DINIT={init}", str(source), "-o", str(built)]
    subprocess.run(command, check=True)
    return str(built)


@pytest.fixture(scope="module")
def nvml(tmp_path_factory):
    return DriverNvml(library(tmp_path_factory.mktemp("nvml"), 0))


def test_memory_name_and_driver_are_read_by_uuid(nvml):
    assert nvml.memory("GPU-6666-bbbb") == Memory(150 * 2**30, 149 * 2**30, 2**30)
    assert nvml.name("GPU-6666-bbbb") == "NVIDIA H200"
    assert nvml.utilisation("GPU-6666-bbbb") == 93
    assert nvml.driver_version() == "580.95.05"


def test_an_unknown_uuid_is_an_error_in_the_drivers_words(nvml):
    with pytest.raises(CudaSetupError, match="refuses nvmlDeviceGetHandleByUUID: Not Found"):
        nvml.memory("GPU-1111")


def test_a_driver_that_is_not_loaded_is_told(tmp_path):
    with pytest.raises(CudaSetupError, match="refuses nvmlInit_v2: Driver Not Loaded"):
        DriverNvml(library(tmp_path, 9))


def test_a_missing_library_is_named(tmp_path):
    with pytest.raises(CudaSetupError, match=r"none\.so cannot be loaded"):
        DriverNvml(str(tmp_path / "none.so"))


@pytest.mark.gpu
def test_the_real_driver_agrees_with_cuda():
    import torch

    from hpo.gpus.pinning import pin

    torch.cuda.init()
    (gpu, *_) = pin(torch.cuda.device_count(), torch.cuda)
    driver = find_nvml()
    assert driver is not None
    assert driver.name(gpu.uuid) == gpu.name
    assert driver.driver_version()
    memory, (free, total) = driver.memory(gpu.uuid), torch.cuda.mem_get_info(0)
    assert abs(memory.free - free) < 2**30
    assert abs(memory.total - total) < 2**31
