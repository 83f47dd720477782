"""Stand-in for the layers that sglang before 0.5.8 takes from vllm on a CPU without AMX.

It replaces classes that it has just defined itself by vllm's of the same name. Without vllm its own are put
back: they have a path in plain torch, and are what every later release uses on such a CPU.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any

from contracts.probes.kernels.sgl_kernel import loud

LAYERS = "vllm.model_executor.layers"


class _Layers(types.ModuleType):
    """A module of vllm that has the classes of sglang's module of the same name."""

    def __getattr__(self, name: str) -> Any:
        own = sys.modules.get(f"sglang.srt.layers.{self.__name__.rpartition('.')[2]}")
        if name.startswith("__") or own is None:
            raise AttributeError(name)
        return getattr(own, name)


class _Operators(types.ModuleType):
    """vllm's compiled operators: every one is there, and raises when called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return loud(name)


def install() -> tuple[str, ...]:
    """Put the stand-in in place if there is no vllm; says what it is."""
    if importlib.util.find_spec("vllm") is not None:
        return ()
    for name in ("vllm", "vllm.model_executor", LAYERS):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    for name in ("activation", "layernorm"):
        sys.modules[f"{LAYERS}.{name}"] = _Layers(f"{LAYERS}.{name}")
    sys.modules["vllm._custom_ops"] = _Operators("vllm._custom_ops")
    return ("vllm's layers (sglang's own of the same name)",)
