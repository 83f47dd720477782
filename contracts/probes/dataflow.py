"""Watches which named tensors flow into which others while real library code runs on the meta device.

On the meta device tensors have shapes and no values, so a model of any size runs in milliseconds. Every
operation passes through the watcher, which remembers for each storage the names of all tensors that ever
contributed to it. That answers, without knowing the model: which checkpoint tensor filled which parameter,
which parameters the logits depend on, and which decoder layers stand behind a captured hidden state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Names = frozenset[str]
_NONE: Names = frozenset()
_FILLS = {
    getattr(torch.ops.aten, name).default
    for name in ("zeros_like", "ones_like", "empty_like", "full_like", "new_zeros", "new_ones", "new_empty")
}


@dataclass(frozen=True)
class Write:
    """Values of one source tensor copied into a part of a parameter."""

    source: str
    offset: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Elements written."""
        return int(torch.Size(self.shape).numel())


class Dataflow(TorchDispatchMode):
    """Context manager: names in, names out, for all tensor operations inside it."""

    def __init__(self, *, destinations: Iterable[tuple[str, torch.Tensor]] = ()) -> None:
        super().__init__()
        self._origins: dict[int, Names] = {}
        self._parts: dict[int, tuple[tuple[int, Names], ...]] = {}
        self._kept: list[torch.Tensor] = []  # a freed storage would hand its identity to the next one
        self._destinations = {_storage(tensor): name for name, tensor in destinations}
        self.writes: dict[str, list[Write]] = {}

    def name(self, tensor: torch.Tensor, name: str) -> None:
        """From here on, whatever `tensor` contributes to carries `name`."""
        self._kept.append(tensor)
        key = _storage(tensor)
        self._origins[key] = self._origins.get(key, _NONE) | {name}

    def origins(self, tensor: torch.Tensor) -> Names:
        """Names of all tensors that contributed to `tensor`."""
        return self._origins.get(_storage(tensor), _NONE)

    def parts(self, tensor: torch.Tensor) -> tuple[tuple[int, Names], ...]:
        """Width and origins of each part that was concatenated into the last dimension of `tensor`."""
        return self._parts.get(_storage(tensor), ((tensor.shape[-1], self.origins(tensor)),))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation and pass the names of its inputs on to its outputs."""
        kwargs = kwargs or {}
        if func is torch.ops.aten.copy_.default:
            self._record_write(args[0], args[1])
        origins = _NONE
        if func not in _FILLS:  # zeros_like and the like take a shape from their input, no value
            inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            origins = _NONE.union(*map(self.origins, inputs))
        parts = None
        if func is torch.ops.aten.cat.default and _last_dimension(args, kwargs):
            parts = tuple((tensor.shape[-1], self.origins(tensor)) for tensor in args[0])
        output = func(*args, **kwargs)
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor):
                self._kept.append(tensor)
                key = _storage(tensor)
                self._origins[key] = self._origins.get(key, _NONE) | origins
                if parts is not None:
                    self._parts[key] = parts
        return output

    def _record_write(self, destination: torch.Tensor, source: torch.Tensor) -> None:
        name = self._destinations.get(_storage(destination))
        if name is None:
            return
        for origin in self.origins(source):
            dtype = str(destination.dtype).removeprefix("torch.")
            write = Write(origin, int(destination.storage_offset()), tuple(destination.shape), dtype)
            self.writes.setdefault(name, []).append(write)


def _storage(tensor: torch.Tensor) -> int:
    """Identity of the memory behind a tensor; views share it."""
    return int(tensor.untyped_storage()._cdata)


def _last_dimension(args: Any, kwargs: Any) -> bool:
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    return bool(dim in (-1, args[0][0].dim() - 1))
