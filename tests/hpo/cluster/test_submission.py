"""What a trial's process could not receive is refused before Ray starts, naming the part that is to blame."""

from __future__ import annotations

import functools
import threading

import numpy as np
import pytest

from hpo.cluster.submission import require_picklable
from trainer.errors import ConfigError


class Holder:
    def __init__(self, **parts):
        self.__dict__.update(parts)

    def __call__(self):
        raise AssertionError


class Slotted:
    __slots__ = ("lock",)

    def __init__(self):
        self.lock = threading.Lock()


class Silent:
    def __reduce__(self):
        raise ValueError


class Wordy:
    def __reduce__(self):
        raise ValueError("not\nthis one")


def returning(thing):
    def training():
        return thing

    return training


def circular():
    holder = Holder()
    holder.itself = holder
    holder.lock = threading.Lock()
    return holder


ENDLESS = (number for number in range(3))
in_a_global = eval("lambda: ENDLESS", {"ENDLESS": ENDLESS})  # of no module that a worker could import
as_default = eval("lambda lock=lock: lock", {"lock": threading.Lock()})


@pytest.mark.parametrize(
    ("training", "key", "kind"),
    [
        (Holder(inner=Holder(lock=threading.Lock())), "training.inner.lock", "lock"),
        (Holder(items=[1, (2, threading.Lock())]), "training.items[1][1]", "lock"),
        (Holder(table={"a": {3: threading.Lock()}}), "training.table['a'][3]", "lock"),
        (Slotted(), "training.lock", "lock"),
        (returning(threading.Lock()), "training.thing", "lock"),
        (functools.partial(returning(1), lock=threading.Lock()), "training.keywords['lock']", "lock"),
        (functools.partial(returning(1), threading.Lock()), "training.args[0]", "lock"),
        (Holder(lock=threading.Lock()).__call__, "training.__self__.lock", "lock"),
        (in_a_global, "training.ENDLESS", "generator"),
        (as_default, "training.__defaults__[0]", "lock"),
        (circular(), "training.lock", "lock"),
    ],
)
def test_the_innermost_part_that_cannot_be_pickled_is_named(training, key, kind):
    with pytest.raises(ConfigError, match=f"{kind} cannot be pickled") as refusal:
        require_picklable(training)
    assert refusal.value.key == key
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("part", "reason"), [(Silent(), "(ValueError)"), (Wordy(), "(not)")])
def test_an_error_of_pickling_is_told_in_one_line_whatever_it_says(part, reason):
    with pytest.raises(ConfigError) as refusal:
        require_picklable(Holder(part=part))
    assert refusal.value.key == "training.part"
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("training", "key"),
    [
        (Holder(name="x", bars=np.zeros(200_000)), "training.bars"),
        (returning({"bars": np.zeros(200_000)}), "training.thing['bars']"),
        (Holder(many=[b"1" * 2**18] + [b"2" * 2**18 + bytes([i]) for i in range(4)]), "training.many"),
    ],
)
def test_what_is_too_large_to_send_is_named_with_its_size(training, key):
    with pytest.raises(
        ConfigError, match=r"must be below 1048576 bytes .* training is 1\d{6}; keep"
    ) as refusal:
        require_picklable(training)
    assert refusal.value.key == key


def test_a_small_training_passes():
    require_picklable(Holder(name="x", factors=[1.0, 2.0]))
