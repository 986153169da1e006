"""Checkpoints: written in the background, whole or not at all; read only by the training that they are of."""

from __future__ import annotations

import os
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer.config import TrainerConfig
from trainer.errors import CheckpointError
from trainer.whole_file import whole_file

FORMAT = 1
# Keys that a training may go on with other values of.
MAY_DIFFER = {
    "training.epochs",
    "training.checkpoint_seconds",
    "training.check_finite",
    "training.cuda_graph",
    "training.steps_per_replay",
    "data.path",
}


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Writes ``state``, whole or not at all, and onto the disk before it returns; makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial, partial.open("wb") as file:
        torch.save({"format": FORMAT, **state}, file)
        file.flush()
        os.fsync(file.fileno())


def read_checkpoint(path: Path, remedy: str = "start anew with --out NEW") -> dict[str, Any]:
    """Reads a checkpoint onto the CPU.

    Args:
        path: The file.
        remedy: What the user can do about a bad one, for the error.

    Raises:
        CheckpointError: If the file is missing, torn, or of another format.
    """
    if not path.is_file():
        raise CheckpointError(
            f"a checkpoint must exist at {path}, but there is none; "
            "start a training with --out NEW, without --resume"
        )
    try:
        state: dict[str, Any] = _load(path)
    except (PermissionError, MemoryError):  # they say nothing of what the file holds
        raise
    except Exception as error:  # torch raises whatever the bytes of another file happen to lead to
        told = "".join(str(error).strip().splitlines()[:1]).split(". ")[0]
        reason = f"{type(error).__name__}: {told}" if told else type(error).__name__
        raise CheckpointError(f"{path} is not a whole checkpoint ({reason}); {remedy}") from error
    found = state.get("format") if isinstance(state, dict) else None
    if found != FORMAT:
        raise CheckpointError(f"{path} has checkpoint format {found}, this version reads {FORMAT}; {remedy}")
    return state


def require_same_training(path: Path, state: dict[str, Any], config: TrainerConfig, data_hash: str) -> None:
    """Refuses a checkpoint of other data, or of a configuration that would change the numbers.

    Args:
        path: Where the checkpoint lies, for the error.
        state: As read from it; ``config`` and ``data_hash`` are looked at.
        config: The effective configuration.
        data_hash: Of the bars that are given.

    Raises:
        CheckpointError: With every key that differs.
    """
    if state["data_hash"] != data_hash:
        raise CheckpointError(
            f"{path} was made from data with hash {state['data_hash'][:12]}, but the data given has "
            f"{data_hash[:12]}; give the same data or start anew with --out NEW"
        )
    # Rebuilt, so that a key that is younger than the checkpoint has its default.
    earlier = TrainerConfig.build(state["config"])
    old, new = _flat(earlier), _flat(config)
    differing = sorted(key for key in new if key not in MAY_DIFFER and old[key] != new[key])
    if differing:
        table = ", ".join(f"{key} {old[key]!r} -> {new[key]!r}" for key in differing)
        raise CheckpointError(
            f"{path} belongs to another configuration ({table}); undo that or start anew with --out NEW"
        )


class CheckpointWriter:
    """Writes at most one checkpoint in ``interval`` seconds, on a thread of its own.

    The first is due ``interval`` seconds after the start. Training goes on meanwhile. An error of the writing
    thread is raised by the next call.
    """

    def __init__(self, path: Path, interval: float) -> None:
        self.path = path
        self._interval = interval
        self._last = time.monotonic()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def offer(self, state: dict[str, Any]) -> bool:
        """Starts a write if one is due and none is going on; returns whether it did.

        Args:
            state: Its tensors on the CPU belong to the writer from now on: copies, which no training changes.
                Those on a GPU are copied before this returns.
        """
        if not self.due():
            return False
        self._last = time.monotonic()
        on_cpu = _on_cpu(state)
        self._thread = threading.Thread(target=self._write, args=(on_cpu,), name="checkpoint", daemon=False)
        self._thread.start()
        return True

    def due(self) -> bool:
        """Whether :meth:`offer` would write now."""
        self._raise_error()
        busy = self._thread is not None and self._thread.is_alive()
        return not busy and time.monotonic() - self._last >= self._interval

    def write_now(self, state: dict[str, Any]) -> None:
        """Waits for a write under way, then writes ``state`` before returning."""
        self.wait()
        write_checkpoint(self.path, state)
        self._last = time.monotonic()

    def wait(self) -> None:
        """Waits for a write under way."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._raise_error()

    def _write(self, state: dict[str, Any]) -> None:
        try:
            write_checkpoint(self.path, state)
        except BaseException as error:  # handed to the training thread, which raises it
            self._error = error

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise CheckpointError(
                f"the checkpoint {self.path} could not be written ({error}); "
                "free space or choose another --out"
            ) from error


def _on_cpu(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _on_cpu(item) for key, item in value.items()}
    return value


def _load(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's guesses at what the file may be; the error says enough
        return torch.load(path, map_location="cpu", weights_only=True)


def _flat(config: TrainerConfig) -> dict[str, Any]:
    values: dict[str, dict[str, Any]] = config.model_dump(mode="json")
    return {f"{section}.{key}": value for section, keys in values.items() for key, value in keys.items()}
