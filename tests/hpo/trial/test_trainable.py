from __future__ import annotations

import pytest

from hpo.trial.trainable import reason_of, resolve_factory
from trainer.errors import ConfigError, NonFiniteError


class OutOfMemoryError(RuntimeError):
    pass


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NonFiniteError("TD error", 12, 3), "TD error NaN at step 12, member 3"),
        (ConfigError("replay.capacity", "is too small"), "replay.capacity: is too small"),
        (MemoryError("array of 9 GB"), "oom: array of 9 GB"),
        (OutOfMemoryError("CUDA out of memory.\nTried to allocate"), "oom: CUDA out of memory."),
        (KeyError("close"), "KeyError: 'close'"),
        (ValueError(), "ValueError: no message"),
        (ValueError("half \ud800 of\x00 one"), "ValueError: half \\ud800 of\\x00 one"),
        (ValueError("Größe 0 €\u2028 next"), "ValueError: Größe 0 €"),
        (ValueError("9" * 401), f"ValueError: {'9' * 400}..."),
    ],
)
def test_a_failure_is_told_in_one_line(error, reason):
    assert reason_of(error) == reason


def test_a_training_is_found_by_module_and_name_or_taken_as_it_is(fakes):
    assert resolve_factory("fake_training:FakeTraining") is fakes.FakeTraining
    assert resolve_factory(fakes.SlowTraining) is fakes.SlowTraining
