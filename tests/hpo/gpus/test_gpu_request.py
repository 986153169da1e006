"""Where a training in this process runs: what is asked for, what is visible, what is refused."""

import pytest

from hpo.effective_config import Assignment, resolve
from hpo.gpus.gpu_request import device_line, settle_device
from hpo.gpus.resources import Gpu
from trainer.errors import ConfigError

ONE = (Gpu(0, "NVIDIA X", "GPU-1111", 4096),)


@pytest.fixture(autouse=True)
def _no_setting(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def settled(gpus, **keys):
    effective = resolve([Assignment(key.replace("__", "."), value, "--set") for key, value in keys.items()])
    return settle_device(effective.config, effective.origins, gpus).training


def test_without_a_gpu_and_without_a_request_it_is_the_reference_on_the_cpu():
    assert (settled(()).backend, settled(()).device) == ("reference", "cpu")


def test_a_visible_gpu_is_used():
    assert settled(ONE).device == "auto"


def test_zero_gpus_per_trial_is_the_cpu_even_where_a_gpu_is_visible():
    assert settled(ONE, resources__gpu="0").device == "cpu"


def test_the_reference_backend_needs_no_gpu_whatever_the_environment_says(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert settled((), backend="reference").device == "cpu"


@pytest.mark.parametrize("keys", [{"resources__gpu": "1"}, {"device": "cuda"}, {"backend": "fused"}])
def test_an_explicit_request_that_cannot_be_met_is_refused(keys):
    with pytest.raises(ConfigError, match=r"resources\.gpu: 0 GPUs visible.*--backend reference"):
        settled((), **keys)


@pytest.mark.parametrize("setting", ["", "-1", "3", "GPU-dead"])
def test_hidden_gpus_are_refused_naming_the_variable_and_its_value(monkeypatch, setting):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    with pytest.raises(ConfigError) as caught:
        settled(())
    assert f"0 GPUs visible (CUDA_VISIBLE_DEVICES='{setting}')" in str(caught.value)


def test_the_line_names_gpu_uuid_and_free_memory():
    config = resolve([]).config.trainer
    assert device_line(config, ONE) == "NVIDIA X, UUID GPU-1111, 4096 MiB free"
    assert device_line(config.with_overrides({"device": "cpu"}), ()) == (
        "reference backend on the CPU (0 GPUs visible), float32, 1 thread"
    )


def test_the_reference_backend_goes_to_the_gpu_if_its_device_is_asked_for():
    assert settled(ONE, backend="reference", device="cuda").device == "cuda"
    with pytest.raises(ConfigError, match=r"resources\.gpu: 0 GPUs visible"):
        settled((), backend="reference", device="cuda")


def test_a_cuda_device_without_a_gpu_of_its_own_contradicts_itself():
    with pytest.raises(
        ConfigError, match=r"training\.device: needs a GPU, but got 'cuda' with resources\.gpu = 0"
    ):
        settled(ONE, device="cuda", resources__gpu="0")
