"""Search spaces, one a file: a module-level ``SPACE`` with its bounds and their reasons."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from trainer.config import SearchSpace


def packaged() -> Mapping[str, SearchSpace]:
    """Returns the spaces of this folder by name; a new file is found without being listed anywhere."""
    return {
        module.name: import_module(f"{__name__}.{module.name}").SPACE
        for module in sorted(iter_modules(__path__), key=lambda found: found.name)
    }
