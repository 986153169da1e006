from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpo.gpus.pinning import pin
from trainer.errors import ConfigError

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Properties:
    name: str
    uuid: str


@dataclass(frozen=True)
class Cuda:
    devices: tuple[Properties, ...]

    def device_count(self):
        return len(self.devices)

    def get_device_properties(self, device):
        return self.devices[device]

    def mem_get_info(self, device):
        return (device + 1) * 1000 * 2**20 + 7, 2**40


def told(gpus):
    return [str(gpu) for gpu in gpus]


ONE = Cuda((Properties("H200", "6666-bbbb"),))
TWO = Cuda((Properties("H200", "1111-aaaa"), Properties("H200", "6666-bbbb")))


@pytest.mark.parametrize("gpus", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("setting", [None, "1", "GPU-6666-bbbb"])
def test_a_trial_says_name_uuid_and_free_memory_of_its_one_device(monkeypatch, gpus, setting):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if setting is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    assert told(pin(gpus, ONE)) == ["H200, UUID GPU-6666-bbbb, 1000 MiB free"]


def test_a_slice_is_called_by_the_name_that_selects_it(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-377e1111-dddd")
    assert told(pin(1.0, ONE)) == ["H200, UUID MIG-377e1111-dddd, 1000 MiB free"]


def test_a_trial_that_was_given_two_devices_names_both(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert told(pin(2.0, TWO)) == [
        "H200, UUID GPU-1111-aaaa, 1000 MiB free",
        "H200, UUID GPU-6666-bbbb, 2000 MiB free",
    ]


@pytest.mark.parametrize(
    ("gpus", "cuda", "message"),
    [
        (
            1.0,
            Cuda(()),
            r"^resources.gpu: 0 GPUs visible \(CUDA_VISIBLE_DEVICES='MIG-x'\).*given 1; make one",
        ),
        (1.0, TWO, r"^resources.gpu: 2 GPUs visible .*given 1; unset RAY_EXPERIMENTAL_NOSET"),
        (0.5, TWO, r"^resources.gpu: 2 GPUs visible .*given 1; "),
        (2.0, ONE, r"^resources.gpu: 1 GPU visible .*given 2; make one"),
    ],
)
def test_another_number_of_devices_is_refused_naming_key_variable_and_fix(monkeypatch, gpus, cuda, message):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-x")
    with pytest.raises(ConfigError, match=message):
        pin(gpus, cuda)


PRESET = """
import os, ray
from hpo.config import SearchConfig
from hpo.cluster.ray_cluster import connected
from hpo.gpus.resources import parse_listing, select_visible
from hpo.trial.trial_process import hide_gpus

LISTING = '''GPU 0: A (UUID: GPU-1111-aaaa)
GPU 1: B (UUID: GPU-6666-bbbb)
  MIG 1g  Device 0: (UUID: MIG-377e1111-dddd)
'''

class Worker:
    def visible(self):
        return os.environ.get("CUDA_VISIBLE_DEVICES")

    def visible_after_hiding(self):
        hide_gpus()
        return self.visible()

gpus = select_visible(parse_listing(LISTING, {}), os.environ["CUDA_VISIBLE_DEVICES"])
with connected(SearchConfig(concurrent=3), gpus, 3, 0):
    worker = ray.remote(Worker)
    pinned = [worker.options(num_gpus=1, num_cpus=1).remote() for _ in gpus]
    hiding = worker.options(num_cpus=1).remote()
    print(sorted(ray.get([each.visible.remote() for each in pinned])))
    print(repr(ray.get(hiding.visible_after_hiding.remote())))
"""


def test_ray_gives_each_trial_one_entry_of_a_preset_list_of_uuids_and_slices():
    """No GPU is needed: Ray hands out names, and none of them may be taken for a number."""
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "GPU-6666,MIG-377e1111-dddd",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", PRESET], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["['GPU-6666', 'MIG-377e1111-dddd']", "''"], done.stderr
