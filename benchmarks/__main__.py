"""``python -m benchmarks``: prints the machine and every table."""

from __future__ import annotations

import platform

import torch

from benchmarks import reference_cpu


def main() -> None:
    """Prints what docs/benchmarks.md holds."""
    print(f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}")
    print(f"\nreference backend, CPU, one thread\n\n{reference_cpu.table()}")


if __name__ == "__main__":
    main()
