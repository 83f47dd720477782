"""Stand-in for the compiled `sgl_kernel`, which exists for GPUs only.

Importing sglang binds names from it; configuration, loading and capture call none of them, and running a
draft on a CPU calls those in `reference`. Every other name exists too, and every call of one raises
`OutOfReach` with that name.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, NoReturn

import torch

from contracts.probes.kernels import reference
from contracts.probes.stream import OutOfReach

NAME = "sgl_kernel"
HAS_A_FALLBACK = (f"{NAME}.scalar_type",)
"""Modules that sglang does without where they are missing, and better than with a stand-in."""


class _Module(types.ModuleType):
    """A module that has every public name."""

    __version__ = "999.0.0"  # passes the minimum versions that sglang asserts

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return reference.KERNELS.get(name) or loud(name)


class _Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module below the stand-in: releases import from different ones."""

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """A package for any name below the stand-in's."""
        below = name.startswith(f"{NAME}.") and name not in HAS_A_FALLBACK
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if below else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """A module that has every name."""
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to execute."""


class Operators:
    """In place of `torch.ops.sgl_kernel`: has every operator that a class may look up when imported."""

    def __getattr__(self, name: str) -> Any:
        return reference.KERNELS.get(name) or loud(name)


def loud(name: str) -> Any:
    """A kernel that raises when it is called."""

    def kernel(*_: Any, **__: Any) -> NoReturn:
        raise OutOfReach(f"{NAME}.{name} was called, and only a GPU machine has it")

    kernel.__name__ = kernel.__qualname__ = name
    return kernel


def install() -> tuple[str, ...]:
    """Put the stand-ins in place for what cannot be imported; says what they are."""
    try:
        module: Any = importlib.import_module(NAME)
        stand_ins: tuple[str, ...] = ()
    except (ImportError, OSError, RuntimeError):
        for loaded in [name for name in sys.modules if name.partition(".")[0] == NAME]:
            del sys.modules[loaded]
        module = _Module(NAME)
        module.__spec__ = importlib.machinery.ModuleSpec(NAME, loader=None)
        module.__path__ = []
        sys.modules[NAME] = module
        sys.meta_path.append(_Submodules())
        stand_ins = (f"{NAME} (importable, every call raises)",)
    missing = [name for name in reference.KERNELS if not hasattr(torch.ops.sgl_kernel, name)]
    for name in missing:
        setattr(module, name, reference.KERNELS[name])
        setattr(torch.ops.sgl_kernel, name, reference.KERNELS[name])
    return (*stand_ins, f"{NAME} on CPU, in plain torch: {', '.join(missing)}") if missing else stand_ins
