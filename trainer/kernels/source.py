"""Where the CUDA sources lie, and what a compiled kernel depends on besides its own file."""

from __future__ import annotations

import hashlib
from pathlib import Path


def source_dir() -> Path:
    """Returns the folder of the .cu and .cuh files: inside an installed trainer, else beside it."""
    inside = Path(__file__).parents[1] / "cuda"
    return inside if inside.is_dir() else inside.parents[1] / "cuda"


def headers_digest() -> str:
    """Returns 16 hexadecimal digits over names and texts of all headers, for the compile options.

    The cache of compiled kernels is keyed by source and options and does not see a changed #include.
    """
    digest = hashlib.sha256()
    for header in sorted(source_dir().glob("*.cuh")):
        digest.update(header.name.encode() + b"\0" + header.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
