"""The errors a user can cause. Each message is one sentence: the rule, the values found, the fix."""

from __future__ import annotations


class FoxtuneError(Exception):
    """Base of every error that the command line prints as one line instead of a traceback."""


class ConfigError(FoxtuneError):
    """A configuration key holds a value that breaks a rule.

    Args:
        key: Dotted configuration key, e.g. ``hindsight.her_ratio``.
        message: The rule, then the values found, then the fix.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}")
        self.key = key


class DataError(FoxtuneError):
    """A bar file breaks a rule; the message names the column, the file line, the value and the fix."""


class LeakError(FoxtuneError):
    """A training on this data would see the future; the message names guard, column or rows, and the fix."""


class MemoryPlanError(FoxtuneError):
    """The planned buffers do not fit the device."""


class CudaSetupError(FoxtuneError):
    """Driver, CUDA libraries or CuPy of this machine cannot run the kernels; the message names the fix."""


class NonFiniteError(FoxtuneError):
    """Training produced NaN or infinity more often than allowed.

    Args:
        quantity: The first bad quantity, e.g. ``TD error``.
        step: Gradient step, counted from 0 over the whole training.
        member: Index of the member in the stack.
        source: The first output of the step that is not finite, e.g. ``q network layer 2``, where it was
            looked for (``training.check_finite``) and found.
    """

    def __init__(self, quantity: str, step: int, member: int, source: str | None = None) -> None:
        found = "" if source is None else f"; first non-finite output: {source}"
        super().__init__(f"{quantity} NaN at step {step}, member {member}{found}")
        self.quantity = quantity
        self.step = step
        self.member = member
        self.source = source


class CheckpointError(FoxtuneError):
    """A checkpoint is missing, torn, or belongs to another configuration."""
