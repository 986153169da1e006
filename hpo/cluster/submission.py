"""What is sent to Ray: a small trainable, with the market in the object store."""

from __future__ import annotations

import functools
import pickle
import types
from collections.abc import Callable, Iterator
from typing import Any

from ray import cloudpickle, tune

from hpo.config import SearchConfig
from hpo.trial.trainable import TrainingFactory, TrialTrainable
from trainer.errors import ConfigError

LIMIT_BYTES = 2**20


def build_trainable(
    search: SearchConfig, market: Any, training: str | TrainingFactory
) -> type[tune.Trainable]:
    """Binds market and training, which :func:`require_picklable` took, to the trainable.

    Ray must be connected.
    """
    bound = tune.with_parameters(TrialTrainable, market=market, training=training)
    resources = {"cpu": float(search.resources.cpu), "gpu": search.gpus_per_trial}
    trainable: type[tune.Trainable] = tune.with_resources(bound, resources)
    return trainable


def require_picklable(training: TrainingFactory) -> None:
    """Refuses a training that a worker could not receive.

    Raises:
        ConfigError: Naming the innermost part that cannot be pickled, or that is too large.
    """
    try:
        size = _pickled_bytes(training)
    except Exception as error:  # pickling runs foreign code, which may raise anything
        where, culprit = _innermost(training, _cannot_be_pickled)
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise ConfigError(
            where,
            f"cannot be sent to the trials' processes: {type(culprit).__name__} cannot be pickled "
            f"({reason}); make it when it is used, or define __getstate__",
        ) from None
    if size > LIMIT_BYTES:
        where, _ = _innermost(training, _is_too_large)
        raise ConfigError(
            where,
            f"must be below {LIMIT_BYTES} bytes when pickled, but training is {size}; keep data in a file",
        )


def size_in_bytes(value: object) -> int:
    """Size of a value when pickled, its arrays counted but not copied."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(body) + sum(buffer.raw().nbytes for buffer in buffers)


def _innermost(value: object, bad: Callable[[object], bool]) -> tuple[str, object]:
    """Follows ``bad`` parts inwards from a bad training; returns the last one and how it is reached."""
    name, seen = "training", {id(value)}
    while True:
        for step, part in _parts(value):
            if id(part) not in seen and bad(part):
                seen.add(id(part))
                name, value = f"{name}{step}", part
                break
        else:
            return name, value


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What pickling a value would pickle too, with how it is written from there."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, types.FunctionType):
        names = value.__code__.co_names
        yield from ((f".{key}", value.__globals__[key]) for key in names if key in value.__globals__)
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        yield from ((f".{key}", cell.cell_contents) for key, cell in cells)
        yield from ((".__defaults__", value.__defaults__), (".__kwdefaults__", value.__kwdefaults__))
    slots = (slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ()))
    kept = {slot: getattr(value, slot) for slot in slots if hasattr(value, slot)}
    kept.update(getattr(value, "__dict__", None) or {})
    yield from ((f".{key}", part) for key, part in kept.items() if not key.startswith("__"))


def _cannot_be_pickled(value: object) -> bool:
    try:
        _pickled_bytes(value)
    except Exception:  # as above; the caller reports it
        return True
    return False


def _is_too_large(value: object) -> bool:
    return _pickled_bytes(value) > LIMIT_BYTES


def _pickled_bytes(value: object) -> int:
    return len(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]
