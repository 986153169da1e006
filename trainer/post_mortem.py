"""first_non_finite: which value of a refused step was the first that is not finite."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Output:
    """What one kernel or product of a gradient step wrote.

    Attributes:
        name: Of the kernel or product, as a message shows it.
        value: [M, ...], still as the step left it.
    """

    name: str
    value: Tensor


@dataclass(frozen=True)
class Source:
    """Where NaN or infinity appeared first.

    Attributes:
        name: Of the output.
        member: Index in the stack.
    """

    name: str
    member: int


def first_non_finite(outputs: Iterable[Output], members: Collection[int]) -> Source | None:
    """Walks the outputs of a step; reads the device once for each of them.

    Args:
        outputs: In the order in which the step writes them; none is asked for behind the first bad one.
        members: Whose step was refused.

    Returns:
        The first output with a value that is not finite, and the first of ``members`` with one; None where
        all of them are finite.
    """
    for output in outputs:
        finite = output.value.isfinite().reshape(len(output.value), -1).all(1).tolist()
        bad = [member for member in sorted(members) if not finite[member]]
        if bad:
            return Source(output.name, bad[0])
    return None
