"""What is read from a machine: packages that pip knows of, headers, and a machine without CUDA."""

import warnings

import pytest
import torch

from trainer import cuda_stack
from trainer.cuda_stack import header_version, installed_cupy, read_stack


def install(folder, name, version):
    (folder / f"{name.replace('-', '_')}-{version}.dist-info").mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (folder / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA").write_text(metadata)


def test_every_cupy_side_by_side_is_found_and_nothing_else(tmp_path, monkeypatch):
    for name, version in (("cupy-cuda13x", "14.2.0"), ("cupy-cuda12x", "13.4.1"), ("cupy-extras", "1")):
        install(tmp_path, name, version)
    monkeypatch.syspath_prepend(tmp_path)
    found = [each for each in installed_cupy() if each[1] in ("14.2.0", "13.4.1", "1")]
    assert found == [("cupy-cuda12x", "13.4.1"), ("cupy-cuda13x", "14.2.0")]


def test_two_cupys_are_not_imported(tmp_path, monkeypatch):
    install(tmp_path, "cupy-cuda12x", "13.4.1")
    install(tmp_path, "cupy", "13.4.1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(cuda_stack, "runtime_version", lambda: pytest.fail("imported"))
    assert len(read_stack().cupy) >= 2


def test_the_version_of_headers_is_read_from_cuda_h(tmp_path):
    assert header_version(tmp_path) is None
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda.h").write_text("#pragma once\n#define CUDA_VERSION 12090\n")
    assert header_version(tmp_path) == (12, 9)


def test_cuda_path_is_read_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    found = read_stack()
    assert (found.cuda_path, found.cuda_path_version) == (str(tmp_path), None)


def test_torchs_own_words_about_an_old_driver_are_left_to_the_finding(monkeypatch):
    def warns():
        warnings.warn("CUDA initialization: The NVIDIA driver on your system is too old", stacklevel=1)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", warns)
    assert read_stack().architecture is None
