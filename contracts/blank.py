"""Writes checkpoints that have every name and shape and no weights: sparse files of zeros.

What a library does with names, shapes and config.json does not depend on weights; only the small maps of
token ids carry values here.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WEIGHTS = "model.safetensors"
BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "I64": 8, "I32": 4, "U8": 1, "I8": 1, "BOOL": 1}
"""Of one element, by dtype as safetensors calls it."""
CODES = {"I64": "q", "I32": "i", "BOOL": "?"}
"""Codes of the struct module for tensors that are given values."""


@dataclass(frozen=True, kw_only=True)
class Blank:
    """One tensor to be written: its type and shape, and its values where they matter."""

    dtype: str
    shape: tuple[int, ...]
    values: tuple[int, ...] | None = None
    """None: zeros, of which nothing is written."""

    @property
    def size(self) -> int:
        """Bytes of its values."""
        return math.prod(self.shape) * BYTES[self.dtype]


def weight(*shape: int, dtype: str = "BF16") -> Blank:
    """A tensor of weights, all zero."""
    return Blank(dtype=dtype, shape=shape)


def integers(values: Sequence[int], dtype: str = "I64") -> Blank:
    """A list of integers."""
    return Blank(dtype=dtype, shape=(len(values),), values=tuple(values))


def flags(chosen: Iterable[int], length: int) -> Blank:
    """A list of truth values of which those of `chosen` are true."""
    ones = set(chosen)
    return Blank(dtype="BOOL", shape=(length,), values=tuple(int(index in ones) for index in range(length)))


def write(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Blank]) -> None:
    """Write a checkpoint to `folder`, which may be there already."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    write_tensors(folder / WEIGHTS, tensors)


def write_tensors(file: Path, tensors: Mapping[str, Blank]) -> None:
    """Write a safetensors file, sparse where nothing has values."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, tensor in tensors.items():
        entries[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.size],
        }
        at += tensor.size
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        begin = out.tell()
        for name, tensor in tensors.items():
            if tensor.values is not None:
                start = entries[name]["data_offsets"][0]  # type: ignore[index]
                out.seek(begin + start)
                out.write(struct.pack(f"<{len(tensor.values)}{CODES[tensor.dtype]}", *tensor.values))
        out.truncate(begin + at)
