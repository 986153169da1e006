"""sections: every table that this machine can measure, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainer.backend import resolve_backend
from trainer.benchmarks import machine, reference_cpu
from trainer.benchmarks.peers import available_peers, peer_times
from trainer.config import TrainerConfig
from trainer.errors import ConfigError

NAMES = ("reference", "step", "parts", "market", "collector", "kernels", "trial")
Section = Callable[[], str]


def sections(*, peers: bool, only: str | None = None) -> Iterator[str]:
    """Measures and yields Markdown, each part as soon as it is measured.

    Args:
        peers: Also measure the JAX and PyTorch peers, where their packages are installed.
        only: One of ``NAMES``; None measures all of them.

    Raises:
        ConfigError: If peers are asked for without a GPU, or the GPU's software is broken; if there is no
            section called ``only``.
    """
    if only is not None and only not in NAMES:
        raise ConfigError("--only", f"must be one of {', '.join(NAMES)}, but got {only!r}")
    backend = resolve_backend(TrainerConfig())  # one thread, as in a training
    fused = backend.name == "fused"
    if peers and not fused:
        raise ConfigError("--peers", f"needs a GPU that the fused backend can use, but got {backend.note}")
    yield machine.describe()
    if only in (None, "reference"):
        yield f"## Reference backend, one thread of the CPU\n\n{reference_cpu.table()}"
    if not fused:
        yield f"The GPU's tables are left out: {backend.note}."
        return
    for name, section in _fused_sections(peers).items():
        if only in (None, name):
            yield section()


def _fused_sections(peers: bool) -> dict[str, Section]:
    from trainer.benchmarks import collector, fused_market, fused_step, kernel_times, step_parts, whole_trial

    def step() -> str:
        times = peer_times(available_peers()) if peers else {}
        return f"## Fused gradient step of the whole stack\n\n{fused_step.table(times)}"

    def parts() -> str:
        return f"## Parts of the captured step, {step_parts.PRECISION}\n\n{step_parts.table()}"

    def collection() -> str:
        return f"## Collection with M x E = 16,384 lanes, {collector.LENGTH} bars each\n\n{collector.table()}"

    def market() -> str:
        lanes, length = fused_market.LANES, fused_market.LENGTH
        title = f"## Fused collection ({lanes} lanes of {length} per member) and evaluation"
        return f"{title}\n\n{fused_market.table()}"

    def kernels() -> str:
        shape = kernel_times.SHAPE
        title = f"## Kernels of one fused step, M {shape.members}, B {shape.batch_size}"
        return f"{title}, {kernel_times.PRECISION}\n\n{kernel_times.table()}"

    def trial() -> str:
        return f"{whole_trial.TITLE}\n\n{whole_trial.section(peers)}"

    return {
        "step": step,
        "parts": parts,
        "market": market,
        "collector": collection,
        "kernels": kernels,
        "trial": trial,
    }
