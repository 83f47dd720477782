"""A checkpoint that lies nowhere: its bytes are made when they are asked for."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from contracts.blank import CODES, WEIGHTS, Blank
from contracts.places import CheckpointError


@dataclass(frozen=True)
class Memory:
    config: Mapping[str, Any]
    tensors: Mapping[str, Blank]
    beside: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return "draft"

    def label(self, name: str) -> str:
        return f"draft/{name}"

    def files(self) -> list[str]:
        return sorted(["config.json", WEIGHTS, *self.beside])

    @cached_property
    def _content(self) -> dict[str, bytes]:
        return {"config.json": json.dumps(self.config).encode()}

    @cached_property
    def _layout(self) -> tuple[bytes, dict[int, Blank], int]:
        entries, places, at = {}, {}, 0
        for name, tensor in self.tensors.items():
            offsets = [at, at + tensor.size]
            entries[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": offsets}
            places[at] = tensor
            at += tensor.size
        text = json.dumps(entries).encode()
        return len(text).to_bytes(8, "little") + text, places, at

    def size(self, name: str) -> int:
        if name == "config.json":
            return len(self._content[name])
        if name != WEIGHTS:
            raise CheckpointError(f"{self.label(name)}: was opened")
        head, _, payload = self._layout
        return len(head) + payload

    def read(self, name: str, offset: int, length: int) -> bytes:
        if name == "config.json":
            return self._content[name][offset : offset + length]
        head, places, _ = self._layout
        if offset < len(head):
            return head[offset : offset + length]
        tensor = places[offset - len(head)]
        assert tensor.values is not None, "weights were read"
        assert length == tensor.size
        return struct.pack(f"<{len(tensor.values)}{CODES[tensor.dtype]}", *tensor.values)
