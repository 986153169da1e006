"""Which GPUs this process may use, found without CUDA, and whether a search's request can be met."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from hpo.config import SearchConfig
from trainer.errors import ConfigError
from trainer.wording import plural

VISIBLE = "CUDA_VISIBLE_DEVICES"
QUERY_SECONDS = 4
LISTED = re.compile(r"^\s*(?P<name>.+?)\s*\(UUID: (?P<uuid>[^)]+)\)")
MIG_UUID = "MIG-"


@dataclass(frozen=True)
class Gpu:
    """A GPU or a MIG slice of one.

    Attributes:
        index: Its place in the driver's list; a slice has that of its GPU.
        name: As the driver calls it.
        uuid: ``GPU-...`` or ``MIG-...``.
        free_mib: Free memory of the GPU, MiB; ``None`` if unknown.
    """

    index: int
    name: str
    uuid: str
    free_mib: int | None = None


def visible_gpus() -> tuple[Gpu, ...]:
    """The GPUs that a CUDA program started here would see, in its order; no CUDA context is made."""
    return select_visible(installed_gpus(), os.environ.get(VISIBLE))


def select_visible(installed: tuple[Gpu, ...], setting: str | None) -> tuple[Gpu, ...]:
    """Applies ``CUDA_VISIBLE_DEVICES`` as CUDA does: entries in order, up to the first that names nothing.

    Args:
        installed: Every GPU and slice.
        setting: Indices, UUIDs or beginnings of UUIDs, separated by commas; ``None`` shows all whole GPUs.
    """
    if setting is None:
        return tuple(gpu for gpu in installed if not gpu.uuid.startswith(MIG_UUID))
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in setting.split(",")):
        found = [gpu for gpu in installed if _names(entry, gpu)]
        if not entry or len(found) != 1:
            break
        chosen.append(found[0])
    return tuple(chosen)


def installed_gpus() -> tuple[Gpu, ...]:
    """Every GPU and MIG slice that the driver's own tool lists; none where it is missing or fails."""
    listing = _nvidia_smi("-L")
    memory = _nvidia_smi("--query-gpu=uuid,memory.free", "--format=csv,noheader,nounits") if listing else ""
    free: dict[str, int] = {}
    for line in memory.splitlines():
        uuid, _, mib = line.partition(",")
        if mib.strip().isdigit():
            free[uuid.strip()] = int(mib)
    return parse_listing(listing, free)


def parse_listing(listing: str, free: dict[str, int]) -> tuple[Gpu, ...]:
    """Reads ``GPU 0: NAME (UUID: GPU-...)`` and the indented lines of MIG slices."""
    found: list[Gpu] = []
    index = -1
    for line in listing.splitlines():
        match = LISTED.match(line)
        if match is None:
            continue
        name, uuid = match["name"], match["uuid"]
        if not uuid.startswith(MIG_UUID):
            index += 1
        found.append(Gpu(index, name.partition(": ")[2] or name, uuid, free.get(uuid)))
    return tuple(found)


def check_gpus(search: SearchConfig, gpus: tuple[Gpu, ...]) -> None:
    """Refuses a request that this machine cannot meet, before any work.

    Raises:
        ConfigError: Naming ``resources.gpu``, what is visible, and the fix.
    """
    wanted = search.gpus_per_trial
    if wanted <= len(gpus):
        return
    setting = os.environ.get(VISIBLE)
    shown = f" ({VISIBLE}={setting!r})" if setting is not None else ""
    raise ConfigError(
        "resources.gpu",
        f"{plural(len(gpus), 'GPU')} visible{shown}, but a trial asks for {wanted:g}; "
        "use --backend reference --gpus-per-trial 0 to train on the CPU, or make a GPU visible",
    )


def concurrency(search: SearchConfig, gpus: float) -> int:
    """Trials at a time that ``gpus`` allow, at most the number asked for, at least one."""
    wanted = search.gpus_per_trial
    if wanted == 0:
        return search.concurrent
    return max(1, min(search.concurrent, int(gpus / wanted + 1e-9)))


def _names(entry: str, gpu: Gpu) -> bool:
    if entry.isdecimal():
        return not gpu.uuid.startswith(MIG_UUID) and gpu.index == int(entry)
    return bool(entry) and entry.startswith(("GPU-", MIG_UUID)) and gpu.uuid.startswith(entry)


def _nvidia_smi(*arguments: str) -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=QUERY_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # a driver that does not answer has no GPU to give
    return done.stdout if done.returncode == 0 else ""
