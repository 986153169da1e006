"""What is sent to Ray: a small trainable, with the market in the object store."""

from __future__ import annotations

import pickle
from typing import Any

from ray import cloudpickle, tune

from hpo.config import SearchConfig
from hpo.trainable import TrainingFactory, TrialTrainable
from trainer.errors import ConfigError

LIMIT_BYTES = 2**20


def build_trainable(
    search: SearchConfig, market: Any, training: str | TrainingFactory
) -> type[tune.Trainable]:
    """Binds market and training to the trainable; Ray must be connected.

    Raises:
        ConfigError: If the training cannot be pickled (naming the attribute) or is too large to send.
    """
    require_picklable("training", training)
    bound = tune.with_parameters(TrialTrainable, market=market, training=training)
    resources = {"cpu": float(search.resources.cpu), "gpu": search.gpus_per_trial}
    trainable: type[tune.Trainable] = tune.with_resources(bound, resources)
    return trainable


def require_picklable(name: str, value: object) -> None:
    """Refuses what a worker could not receive.

    Raises:
        ConfigError: Naming the innermost attribute that cannot be pickled, or the size.
    """
    try:
        size = len(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]
    except Exception as error:  # pickling runs foreign code, which may raise anything
        where, culprit = _culprit(name, value, 0)
        raise ConfigError(
            where,
            f"cannot be sent to the trials' processes: {type(culprit).__name__} cannot be pickled "
            f"({str(error).splitlines()[0]}); make it when it is used, or define __getstate__",
        ) from None
    if size > LIMIT_BYTES:
        raise ConfigError(
            name,
            f"must be below {LIMIT_BYTES} bytes when pickled, but is {size}; keep data in a file",
        )


def size_in_bytes(value: object) -> int:
    """Size of a value when pickled, its arrays counted but not copied."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(body) + sum(buffer.raw().nbytes for buffer in buffers)


def _culprit(name: str, value: object, depth: int) -> tuple[str, object]:
    parts: dict[str, object] = dict(getattr(value, "__dict__", None) or {})
    closure = getattr(value, "__closure__", None) or ()
    free = getattr(getattr(value, "__code__", None), "co_freevars", ())
    parts.update({key: cell.cell_contents for key, cell in zip(free, closure, strict=False)})
    for key, part in parts.items():
        if depth < 8 and not key.startswith("__") and not _can_pickle(part):
            return _culprit(f"{name}.{key}", part, depth + 1)
    return name, value


def _can_pickle(value: object) -> bool:
    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception:  # as above; the caller reports it
        return False
    return True
