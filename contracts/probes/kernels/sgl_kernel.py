"""Stand-in for the compiled `sgl_kernel`, which exists for GPUs only.

Importing sglang binds names from it; configuration, loading and capture call none of them. Every name
exists here, and every call raises `OutOfReach` with that name.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, NoReturn

from contracts.probes.stream import OutOfReach

NAME = "sgl_kernel"


class _Module(types.ModuleType):
    """A module that has every public name."""

    __version__ = "999.0.0"  # passes the minimum versions that sglang asserts

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def kernel(*_: Any, **__: Any) -> NoReturn:
            raise OutOfReach(f"{NAME}.{name} was called, and only a GPU machine has it")

        kernel.__name__ = kernel.__qualname__ = name
        return kernel


def install() -> bool:
    """Put the stand-in in place if the real package cannot be imported; tells whether it did."""
    try:
        importlib.import_module(NAME)
    except (ImportError, OSError, RuntimeError):
        for loaded in [name for name in sys.modules if name.partition(".")[0] == NAME]:
            del sys.modules[loaded]
        module = _Module(NAME)
        module.__spec__ = importlib.machinery.ModuleSpec(NAME, loader=None)
        sys.modules[NAME] = module
        return True
    return False
