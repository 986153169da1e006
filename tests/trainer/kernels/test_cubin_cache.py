"""Compiled kernels on disk: found again, moved where the folder refuses, with one warning."""

import errno
import os
import tempfile
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainer.errors import CudaSetupError
from trainer.kernels import cubin_cache
from trainer.kernels.cubin_cache import CubinCache, default_directory, file_name

CUBIN = b"\x7fELF and more"


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """The user's temporary folder, inside the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def blocked(tmp_path: Path) -> Path:
    """A path below a file: whoever asks, even root, cannot make a folder there."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "cache"


def test_what_was_stored_is_found_by_every_later_cache(tmp_path):
    stored = CubinCache(tmp_path / "cache").store("k", CUBIN)
    assert stored.read_bytes() == CUBIN
    assert CubinCache(tmp_path / "cache").find("k") == stored
    assert list((tmp_path / "cache").iterdir()) == [stored]


def test_what_was_not_stored_is_not_found(tmp_path):
    assert CubinCache(tmp_path / "cache").find("k") is None


@pytest.mark.parametrize("content", [b"", b"\x00\x00\x00\x00", b"text"])
def test_a_file_that_is_no_machine_code_counts_as_absent(tmp_path, content):
    (tmp_path / file_name("k", content)).write_bytes(content)
    assert CubinCache(tmp_path).find("k") is None


def cut(content: bytes) -> bytes:
    return content[:-1]


def longer(content: bytes) -> bytes:
    return content + b"\0"


def one_bit_turned(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("damage", [cut, longer, one_bit_turned])
def test_a_damaged_file_counts_as_absent_and_is_replaced_by_the_next_store(tmp_path, damage):
    cache = CubinCache(tmp_path / "cache")
    stored = cache.store("k", CUBIN)
    stored.write_bytes(damage(CUBIN))
    assert stored.read_bytes().startswith(b"\x7fELF")
    assert cache.find("k") is None
    assert cache.store("k", CUBIN) == stored
    assert (cache.find("k"), stored.read_bytes(), list(stored.parent.iterdir())) == (
        stored,
        CUBIN,
        [stored],
    )


def test_a_whole_file_beside_a_damaged_one_is_found(tmp_path):
    cache = CubinCache(tmp_path)
    first, second = cache.store("k", CUBIN), cache.store("k", CUBIN + b" of another compiler")
    for damaged, whole in ((first, second), (second, first)):
        content = damaged.read_bytes()
        damaged.write_bytes(content[:-1])
        assert cache.find("k") == whole
        damaged.write_bytes(content)


def test_the_key_of_one_kernel_does_not_find_the_file_of_a_longer_key(tmp_path):
    cache = CubinCache(tmp_path)
    cache.store("k-sm_90", CUBIN)
    assert cache.find("k") is None


def test_a_folder_that_cannot_be_made_is_replaced_with_one_warning_that_names_the_variable(
    tmp_path, temporary
):
    cache = CubinCache(blocked(tmp_path))
    with pytest.warns(UserWarning, match="set CUPY_CACHE_DIR to a folder that can be written"):
        first = cache.store("a", CUBIN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = cache.store("b", CUBIN)
    assert first.parent == second.parent == temporary / f"foxtune-kernels-{os.getuid()}"
    assert cache.find("a") == first


def test_a_later_process_finds_the_replacement_without_a_warning(tmp_path):
    with pytest.warns(UserWarning, match="CUPY_CACHE_DIR"):
        stored = CubinCache(blocked(tmp_path)).store("k", CUBIN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CubinCache(tmp_path / "file" / "cache").find("k") == stored


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_disk_is_noticed_when_the_file_is_written_and_leaves_no_part(tmp_path, monkeypatch, number):
    wanted = tmp_path / "cache"
    fsync = os.fsync

    def full(descriptor):
        if Path(os.readlink(f"/proc/self/fd/{descriptor}")).parent == wanted:
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(cubin_cache.os, "fsync", full)
    with pytest.warns(UserWarning, match=os.strerror(number)):
        stored = CubinCache(wanted).store("k", CUBIN)
    assert stored.read_bytes() == CUBIN
    assert list(wanted.iterdir()) == []


def test_threads_that_compile_at_once_warn_once_and_agree_on_the_folder(tmp_path, monkeypatch):
    cache, waiting = CubinCache(blocked(tmp_path)), threading.Barrier(8)
    write = cubin_cache._write

    def together(folder, key, cubin):
        if folder == cache.directory:
            waiting.wait()  # nobody falls back before all have seen the refusal ahead
        return write(folder, key, cubin)

    monkeypatch.setattr(cubin_cache, "_write", together)
    with pytest.warns(UserWarning, match="CUPY_CACHE_DIR") as caught, ThreadPoolExecutor(8) as threads:
        stored = list(threads.map(lambda number: cache.store(f"k{number}", CUBIN), range(8)))
    assert len(caught) == 1
    assert len({path.parent for path in stored}) == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_machine_that_keeps_no_file_at_all_is_told_so_in_one_sentence(tmp_path, monkeypatch, number):
    def full(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(cubin_cache.os, "fsync", full)
    with (
        pytest.warns(UserWarning, match="CUPY_CACHE_DIR"),
        pytest.raises(CudaSetupError, match=f"neither in .* nor in .*{os.strerror(number)}.*CUPY_CACHE_DIR"),
    ):
        CubinCache(tmp_path / "cache").store("k", CUBIN)


def test_no_temporary_folder_beside_a_refusing_one_is_one_sentence_too(tmp_path, monkeypatch):
    def none(prefix):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "tempdir", str(blocked(tmp_path)))
    monkeypatch.setattr(tempfile, "mkdtemp", none)
    with pytest.raises(CudaSetupError, match="No usable temporary directory found"):
        CubinCache(tmp_path / "file" / "cache").store("k", CUBIN)


def test_a_temporary_folder_that_others_may_write_is_not_trusted(tmp_path, temporary):
    planted = temporary / f"foxtune-kernels-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    (planted / file_name("k", CUBIN)).write_bytes(CUBIN)
    cache = CubinCache(blocked(tmp_path))
    assert cache.find("k") is None
    with pytest.warns(UserWarning, match="CUPY_CACHE_DIR"):
        assert cache.store("k", CUBIN).parent != planted


def test_the_folder_is_that_of_cupy_unless_the_environment_names_another(monkeypatch, tmp_path, temporary):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CUPY_CACHE_DIR", raising=False)
    assert default_directory() == tmp_path / ".cupy" / "kernel_cache" / "foxtune"
    monkeypatch.setenv("CUPY_CACHE_DIR", "/elsewhere")
    assert default_directory() == Path("/elsewhere/foxtune")
    monkeypatch.delenv("CUPY_CACHE_DIR")
    monkeypatch.delenv("HOME")
    assert default_directory().parent.parent == temporary
