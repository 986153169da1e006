from __future__ import annotations

import pytest

from hpo.gpus.resources import check_gpus, concurrency, parse_listing, select_visible
from trainer.errors import ConfigError

LISTING = """\
GPU 0: NVIDIA H200 (UUID: GPU-11111111-aaaa)
GPU 1: NVIDIA H200 (UUID: GPU-66666666-bbbb)
  MIG 1g.18gb     Device  0: (UUID: MIG-377e0000-cccc)
  MIG 1g.18gb     Device  1: (UUID: MIG-377e1111-dddd)
GPU 2: NVIDIA T4 (UUID: GPU-22222222-eeee)
"""
INSTALLED = parse_listing(LISTING, {"GPU-66666666-bbbb": 143000})


def test_the_listing_gives_gpus_and_slices_with_their_uuids_and_free_memory():
    assert [gpu.uuid[:6] for gpu in INSTALLED] == ["GPU-11", "GPU-66", "MIG-37", "MIG-37", "GPU-22"]
    assert [gpu.index for gpu in INSTALLED] == [0, 1, 1, 1, 2]
    assert (INSTALLED[1].name, INSTALLED[1].free_mib) == ("NVIDIA H200", 143000)


@pytest.mark.parametrize(
    ("setting", "uuids"),
    [
        (None, ["GPU-11111111-aaaa", "GPU-66666666-bbbb", "GPU-22222222-eeee"]),
        ("", []),
        ("-1", []),
        ("2,0", ["GPU-22222222-eeee", "GPU-11111111-aaaa"]),
        ("0,7,1", ["GPU-11111111-aaaa"]),
        ("GPU-66666666,GPU-1", ["GPU-66666666-bbbb", "GPU-11111111-aaaa"]),
        ("MIG-377e1111-dddd", ["MIG-377e1111-dddd"]),
        ("MIG-377e", []),
        ("NoDevFiles", []),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(setting, uuids):
    assert [gpu.uuid for gpu in select_visible(INSTALLED, setting)] == uuids


def test_gpus_that_are_not_there_are_refused_naming_key_variable_and_fix(make_search, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ConfigError, match=r"0 GPUs visible \(CUDA_VISIBLE_DEVICES=''\)") as refusal:
        check_gpus(make_search(resources={}), ())
    assert refusal.value.key == "resources.gpu"
    assert "--backend reference" in str(refusal.value)


def test_without_a_gpu_request_nothing_is_refused(make_search):
    check_gpus(make_search(resources={"gpu": 0}), ())
    check_gpus(make_search(resources={}, trainer={"training": {"backend": "reference"}}), ())


def test_zero_gpus_mean_the_reference_backend_on_the_cpu(make_search):
    training = make_search(resources={"gpu": 0}).trial_trainer.training
    assert (training.backend, training.device) == ("reference", "cpu")


def test_the_fused_backend_on_zero_gpus_is_refused_with_both_ways_out(make_search):
    with pytest.raises(ConfigError) as refusal:
        make_search(resources={"gpu": 0}, trainer={"training": {"backend": "fused"}})
    assert refusal.value.key == "resources.gpu"
    assert "trial has no GPU assigned" in str(refusal.value)
    assert "--gpus-per-trial 1 or --backend reference" in str(refusal.value)


@pytest.mark.parametrize(
    ("gpu", "gpus", "concurrent"), [(1, 2, 2), (1, 8, 3), (0.5, 1, 2), (2, 3, 1), (0, 0, 3)]
)
def test_trials_at_a_time_never_share_what_they_asked_for(make_search, gpu, gpus, concurrent):
    assert concurrency(make_search(concurrent=3, resources={"gpu": gpu}), gpus) == concurrent
