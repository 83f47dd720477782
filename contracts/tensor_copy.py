"""Copies tensors from safetensors files to a new one, piece by piece, whatever their size.

The format is written as its definition has it (https://github.com/huggingface/safetensors, "Format"); the
safetensors library writes only what is in memory as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from contracts.checkpoint import Checkpoint, CheckpointError, Tensor

PIECE = 2**20
"""Bytes read, checked and written at a time."""
ALIGNMENT = 8
"""The data begins at a multiple of it, so that every tensor can be memory-mapped where it lies."""

EXPONENTS = {
    "F32": ("<u4", 0x7F80_0000),
    "F16": ("<u2", 0x7C00),
    "BF16": ("<u2", 0x7F80),
}
"""Bits that are all set in what is no finite number, by dtype."""
INTEGERS = {"I64": "<i8", "I32": "<i4"}

Copied = Callable[[int], None]
"""Told the number of bytes of each piece that was copied."""


def copy(source: Checkpoint, renames: Mapping[str, str], file: Path, copied: Copied = lambda _: None) -> None:
    """Write the tensors of `source` that `renames` names to `file`, under their new names.

    The same tensors give the same bytes, however they were spread over shards.

    Raises:
        CheckpointError: a tensor holds NaN or infinity, or a shard ends too soon.
        OSError: the disk is full, say.

    """
    chosen = [(new, source.tensors[name], name) for name, new in renames.items()]
    chosen.sort(key=lambda item: (-item[1].bits, item[0]))  # wide ones first keeps each aligned
    with file.open("wb") as out:
        out.write(_header({new: tensor for new, tensor, _ in chosen}))
        for _, tensor, name in chosen:
            with (source.path / tensor.file).open("rb") as shard:
                _copy_one(shard, tensor, f"{source.path / tensor.file}: tensor {name!r}", out, copied)


def _header(tensors: Mapping[str, Tensor]) -> bytes:
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, tensor in tensors.items():
        offsets = [at, at + tensor.size]
        entries[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": offsets}
        at += tensor.size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _copy_one(shard: BinaryIO, tensor: Tensor, what: str, out: BinaryIO, copied: Copied) -> None:
    shard.seek(tensor.offset)
    left = tensor.size
    while left:
        piece = shard.read(min(PIECE, left))
        if not piece:
            raise CheckpointError(f"{what}: the file ends too soon; copy the checkpoint again")
        if not _is_finite(piece, tensor.dtype):
            raise CheckpointError(f"{what} holds NaN or infinity; train again from a sound checkpoint")
        out.write(piece)
        left -= len(piece)
        copied(len(piece))


def _is_finite(piece: bytes, dtype: str) -> bool:
    if dtype not in EXPONENTS:
        return True
    kind, exponent = EXPONENTS[dtype]
    bits = np.frombuffer(piece, dtype=kind)
    return bool((bits & bits.dtype.type(exponent)).max(initial=0) != exponent)


def integers(source: Checkpoint, name: str) -> list[int]:
    """The values of a small integer tensor.

    Raises:
        CheckpointError: it is of another dtype, or its file ends too soon.

    """
    tensor = source.tensors[name]
    file = source.path / tensor.file
    if tensor.dtype not in INTEGERS:
        raise CheckpointError(f"{file}: {name} is of dtype {tensor.dtype}; offsets are integers")
    return [int(value) for value in np.frombuffer(_bytes(source, name), dtype=INTEGERS[tensor.dtype])]


def flags(source: Checkpoint, name: str) -> list[bool]:
    """The values of a small tensor of truth values."""
    return [bool(value) for value in _bytes(source, name)]


def _bytes(source: Checkpoint, name: str) -> bytes:
    tensor = source.tensors[name]
    file = source.path / tensor.file
    try:
        with file.open("rb") as shard:
            shard.seek(tensor.offset)
            data = shard.read(tensor.size)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    if len(data) != tensor.size:
        raise CheckpointError(f"{file}: tensor {name!r}: the file ends too soon; copy the checkpoint again")
    return data
