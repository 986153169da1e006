"""What is asked of the NVIDIA driver; a made-up library answers."""

import ctypes

import pytest

from trainer.cuda_driver import driver_devices, driver_version


class Library:
    """A driver for CUDA 12.7 that shows two GPUs; ``status`` is what every call returns."""

    def __init__(self, status=0):
        self.status = status

    def cuDriverGetVersion(self, number):
        number._obj.value = 12070
        return self.status

    def cuInit(self, flags):
        assert flags == 0
        return self.status

    def cuDeviceGetCount(self, number):
        number._obj.value = 2
        return self.status


def test_no_driver_library_is_no_driver_and_no_gpu(monkeypatch):
    def absent(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", absent)
    assert driver_version() is None
    assert driver_devices() == 0


def test_the_driver_is_asked_for_the_version_it_supports_and_its_gpus(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    assert driver_version() == (12, 7)
    assert driver_devices() == 2


@pytest.mark.parametrize("status", [100, 803])  # no device; a library of another version than its module
def test_a_driver_that_does_not_answer_is_none(monkeypatch, status):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library(status))
    assert driver_version() is None
    assert driver_devices() == 0
