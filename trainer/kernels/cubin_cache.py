"""CubinCache: compiled kernels on disk, shared by processes, with a way out where the disk refuses."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

from trainer.errors import CudaSetupError

VARIABLE = "CUPY_CACHE_DIR"  # CuPy's own: one setting moves its kernels and ours
ELF = b"\x7fELF"


class CubinCache:
    """Files ``<key>-<digest of content>.cubin`` in one folder, or in a temporary one while that refuses.

    A file appears under its name only when it is whole, so any number of processes may fill the same
    folder at once: they write equal files, and the last one stays. A file that was damaged later no longer
    has the digest of its name: it counts as absent, and the next store puts a whole one in its place.
    Threads may share a cache.

    Args:
        directory: The wanted folder; by default that of ``CUPY_CACHE_DIR``, else ``~/.cupy/kernel_cache``.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory if directory is not None else default_directory()
        self._fallback: Path | None = None
        self._choosing = threading.Lock()

    def find(self, key: str) -> Path | None:
        """Returns the file of ``key``, or None where there is none that can be read whole."""
        for folder in self._folders():
            for path in folder.glob(f"{key}-*.cubin"):
                if _is_whole(path, key):
                    return path
        return None

    def store(self, key: str, cubin: bytes) -> Path:
        """Writes the file of ``key`` and returns where it lies.

        Warns:
            UserWarning: Once, if the wanted folder cannot be written, naming ``CUPY_CACHE_DIR``.

        Raises:
            CudaSetupError: If the temporary folder refuses too.
        """
        if self._fallback is None:
            try:
                return _write(self.directory, key, cubin)
            except OSError as error:
                folder = self._fall_back(error)
        else:
            folder = self._fallback
        try:
            return _write(folder, key, cubin)
        except OSError as error:
            raise self._nowhere(error) from error

    def _fall_back(self, refused: OSError) -> Path:
        """Returns the other folder; chooses it and warns once for all threads that compile."""
        with self._choosing:
            if self._fallback is not None:
                return self._fallback
            try:
                self._fallback = user_directory()
            except OSError as error:
                raise self._nowhere(error) from error
            warnings.warn(
                f"compiled kernels cannot be kept in {self.directory} ({refused.strerror}), but in "
                f"{self._fallback}; set {VARIABLE} to a folder that can be written",
                stacklevel=3,
            )
            return self._fallback

    def _nowhere(self, error: OSError) -> CudaSetupError:
        return CudaSetupError(
            f"compiled kernels can be kept neither in {self.directory} nor in a temporary folder "
            f"({error.strerror}); set {VARIABLE} to a folder that can be written"
        )

    def _folders(self) -> Iterator[Path]:
        yield self.directory
        if self._fallback is not None:
            yield self._fallback
        elif _is_own(_user_path()):
            yield _user_path()


def file_name(key: str, cubin: bytes) -> str:
    """Returns the only name under which ``cubin`` is taken for the machine code of ``key``."""
    return f"{key}-{hashlib.sha256(cubin).hexdigest()[:16]}.cubin"


def _is_whole(path: Path, key: str) -> bool:
    try:
        content = path.read_bytes()
    except OSError:
        return False  # of another user, or gone meanwhile: as good as absent
    return content.startswith(ELF) and path.name == file_name(key, content)


def default_directory() -> Path:
    """Returns the folder for compiled kernels that the environment asks for."""
    given = os.environ.get(VARIABLE)
    # Without a home "~" stays as it is: then the user's temporary folder is the better default.
    home = Path("~/.cupy/kernel_cache").expanduser() if os.environ.get("HOME") else _user_path()
    return (Path(given) if given else home) / "foxtune"


def user_directory() -> Path:
    """Makes and returns a temporary folder that belongs to this user alone."""
    path = _user_path()
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        if _is_own(path) and os.access(path, os.W_OK):
            return path
    except OSError:
        pass  # a file of that name, or no temporary folder of this user: a fresh one is made below
    return Path(tempfile.mkdtemp(prefix="foxtune-kernels-"))


def _user_path() -> Path:
    return Path(tempfile.gettempdir()) / f"foxtune-kernels-{os.getuid()}"


def _is_own(path: Path) -> bool:
    """Whether no other user can have put anything into the folder."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _write(folder: Path, key: str, cubin: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=folder, suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(cubin)
            file.flush()
            os.fsync(file.fileno())  # a full disk may object as late as here
        path = folder / file_name(key, cubin)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return path
