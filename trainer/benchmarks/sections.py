"""sections: every table that this machine can measure, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from trainer.backend import resolve_backend
from trainer.benchmarks import machine, reference_cpu
from trainer.benchmarks.peers import PeerKey, available_peers, peer_times
from trainer.config import TrainerConfig
from trainer.errors import ConfigError


def sections(*, peers: bool) -> Iterator[str]:
    """Measures and yields Markdown, each part as soon as it is measured.

    Args:
        peers: Also measure the JAX and PyTorch steps, where their packages are installed.

    Raises:
        ConfigError: If peers are asked for without a GPU, or the GPU's software is broken.
    """
    backend = resolve_backend(TrainerConfig())  # one thread, as in a training
    fused = backend.name == "fused"
    if peers and not fused:
        raise ConfigError("--peers", f"needs a GPU that the fused backend can use, but got {backend.note}")
    yield machine.describe()
    yield f"## Reference backend, one thread of the CPU\n\n{reference_cpu.table()}"
    if not fused:
        yield f"The GPU's tables are left out: {backend.note}."
        return
    yield from _fused_sections(peer_times(available_peers()) if peers else {})


def _fused_sections(peers: dict[PeerKey, float]) -> Iterator[str]:
    from trainer.benchmarks import fused_market, fused_step, kernel_times

    yield f"## Fused gradient step of the whole stack\n\n{fused_step.table(peers)}"
    lanes, length = fused_market.LANES, fused_market.LENGTH
    yield (
        f"## Fused collection ({lanes} lanes of {length} per member) and evaluation\n\n{fused_market.table()}"
    )
    shape = kernel_times.SHAPE
    yield (
        f"## Kernels of one fused step, M {shape.members}, B {shape.batch_size}, {kernel_times.PRECISION}\n\n"
        f"{kernel_times.table()}"
    )
