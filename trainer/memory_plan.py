"""MemoryPlan: bytes of every tensor a training will hold, counted on the meta device before any is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from trainer.errors import MemoryPlanError

MIB = 2**20
META = torch.device("meta")  # shapes without memory
SHOWN = 3  # biggest items named by an error
Labels = tuple[tuple[type, str], ...]


@dataclass(frozen=True)
class Item:
    """One allocation.

    Attributes:
        group: What it belongs to, such as ``replay``.
        name: The tensor.
        shape: Of the tensor, outermost first; empty where it is no tensor.
        size: Bytes.
    """

    group: str
    name: str
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class MemoryPlan:
    """What a training needs.

    Attributes:
        items: Every allocation.
        item_bytes: Bytes of one stored transition.
    """

    items: tuple[Item, ...]
    item_bytes: int

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(item.size for item in self.items)

    def biggest(self, count: int) -> tuple[Item, ...]:
        """Returns the ``count`` largest allocations, largest first; equal ones count together."""
        same = Counter(self.items)
        joined = [
            replace(item, name=f"{number} x {item.name}", size=number * item.size) if number > 1 else item
            for item, number in same.items()
        ]
        return tuple(sorted(joined, key=lambda item: -item.size)[:count])

    def groups(self) -> tuple[Item, ...]:
        """Returns one item per group, in order, with the group's bytes and its largest tensor."""
        found: dict[str, list[Item]] = {}
        for item in self.items:
            found.setdefault(item.group, []).append(item)
        return tuple(
            Item(group, largest.name, largest.shape, sum(item.size for item in items))
            for group, items in found.items()
            for largest in [max(items, key=lambda item: item.size)]
        )

    def table(self) -> str:
        """Lays the groups out in lines: what, its largest tensor, MiB."""
        rows = [
            (each.group, f"{each.name} {list(each.shape)}" if each.shape else each.name, each.size)
            for each in self.groups()
        ]
        rows.append(("total", f"a stored transition is {self.item_bytes} bytes", self.total))
        first, second = (max(len(str(row[column])) for row in rows) for column in (0, 1))
        return "\n".join(f"  {a:{first}}  {b:{second}}  {c / MIB:>9.2f} MiB" for a, b, c in rows)


def require_fit(plan: MemoryPlan, free: int, where: str, advice: str) -> None:
    """Refuses a plan that does not fit.

    Args:
        plan: What is needed.
        free: Bytes that are free.
        where: Whose memory it is, for the message.
        advice: What would fit.

    Raises:
        MemoryPlanError: With needed and free MiB, the biggest items, and ``advice``.
    """
    if plan.total <= free:
        return
    items = ", ".join(f"{each.group} {each.name} {_mib(each.size)}" for each in plan.biggest(SHOWN))
    raise MemoryPlanError(
        f"the training needs {_mib(plan.total)}, but {_mib(free)} are free on {where} "
        f"(biggest: {items}); {advice}"
    )


def items_of(owner: Any, group: str, labels: Labels = ()) -> list[Item]:
    """Lists the tensors that an object holds, directly or through objects of this project.

    A view of a tensor that was counted before costs nothing, and neither does a tensor on the host.

    Args:
        owner: Its device tensors are on the meta device, so that nothing was allocated.
        group: Of tensors outside every labelled class.
        labels: Classes whose tensors form a group of their own.
    """
    return list(_walk(owner, group, "", labels, set()))


def _walk(value: Any, group: str, name: str, labels: Labels, seen: set[int]) -> Iterator[Item]:
    if isinstance(value, Tensor):
        storage = value.untyped_storage()
        if value.device.type == META.type and storage._cdata not in seen:
            seen.add(storage._cdata)
            yield Item(group, name.strip("_"), tuple(value.shape), storage.nbytes())
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    own = next((label for kind, label in labels if isinstance(value, kind)), group)
    for key, part in _parts(value):
        yield from _walk(part, own, key or name, labels, seen)


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Names and values inside a container or an object of this project."""
    if isinstance(value, dict):
        return [(str(key), part) for key, part in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if isinstance(value, tuple | list):
        return [("", part) for part in value]
    if type(value).__module__.partition(".")[0] == "trainer" and hasattr(value, "__dict__"):
        return list(vars(value).items())
    return []


def _mib(size: int) -> str:
    return f"{size / MIB:.0f} MiB"
