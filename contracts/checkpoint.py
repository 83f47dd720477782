"""Reads a draft checkpoint from config.json and its safetensors headers, never from its weights.

A header is checked as strictly as the format defines it (https://github.com/huggingface/safetensors,
"Format"): length prefix, JSON, dtypes, offsets within the file. Nothing is ever unpickled.
Standard library only, because probes use it too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INDEX = "model.safetensors.index.json"
MAX_HEADER = 100_000_000
"""Bytes; the limit of the reference implementation."""

_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "F8_E8M0": 8, "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip


class CheckpointError(Exception):
    """The checkpoint cannot be read: one line that says what, where and what to do."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One tensor as its header describes it."""

    dtype: str
    shape: tuple[int, ...]
    file: str
    offset: int = 0
    """Byte of the file at which its values begin."""

    @property
    def bits(self) -> int:
        """Of one element."""
        return _BITS[self.dtype]

    @property
    def size(self) -> int:
        """Bytes of its values."""
        return math.prod(self.shape) * self.bits // 8


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A draft checkpoint on disk: its config and the headers of its tensors."""

    path: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


def read(path: Path) -> Checkpoint:
    """Read the checkpoint folder `path`.

    Raises:
        CheckpointError: missing, truncated, malformed or inconsistent files.

    """
    if not path.is_dir():
        raise CheckpointError(f"{path}: not a folder; give the folder that holds config.json")
    config = read_json(path / "config.json")
    tensors: dict[str, Tensor] = {}
    promised = _index(path)
    for file in _weight_files(path, promised):
        for name, tensor in read_header(file).items():
            if name in tensors:
                raise CheckpointError(
                    f"{file}: tensor {name!r} is in {tensors[name].file} too; keep one of the two files"
                )
            tensors[name] = tensor
    _check_index(path, promised, tensors)
    return Checkpoint(path=path, config=config, tensors=tensors)


def _check_index(path: Path, promised: Mapping[str, str], tensors: Mapping[str, Tensor]) -> None:
    """Index and shards have to tell the same."""
    if not promised:
        return
    for name in (*promised, *tensors):
        said, found = promised.get(name), tensors.get(name)
        if found is None:
            what = f"tensor {name!r} is in no shard"
        elif said is None:
            what = f"tensor {name!r} of {found.file} is not in the index"
        elif said != found.file:
            what = f"tensor {name!r} is in {found.file}, not in {said}"
        else:
            continue
        raise CheckpointError(f"{path / INDEX}: {what}; copy the checkpoint again")


def read_json(file: Path) -> dict[str, Any]:
    """The JSON object in `file`.

    Raises:
        CheckpointError: no such file, or not a JSON object.

    """
    if file.exists() and not file.is_file():
        raise CheckpointError(f"{file}: no ordinary file; save the checkpoint again")
    try:
        data = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=_without_repeats)
    except FileNotFoundError:
        raise CheckpointError(f"{file}: no such file; is this a checkpoint folder?") from None
    except _RepeatedKey as repeated:
        raise CheckpointError(f"{file}: names the key {repeated} twice; save the checkpoint again") from None
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file}: not readable as JSON ({error}); save the checkpoint again") from None
    if not isinstance(data, dict):
        raise CheckpointError(f"{file}: expected a JSON object, found {type(data).__name__}")
    return data


def read_header(file: Path) -> dict[str, Tensor]:
    """Names, dtypes and shapes of the tensors in a safetensors file.

    Raises:
        CheckpointError: not a well-formed safetensors file.

    """
    if not file.is_file():
        raise CheckpointError(f"{file}: no ordinary file; copy the checkpoint again")
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or length > min(MAX_HEADER, size - 8):
                raise CheckpointError(
                    f"{file}: truncated or not safetensors (header of {length} bytes in a file of {size}); "
                    "copy it again"
                )
            raw = stream.read(length)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    try:
        header = json.loads(raw, object_pairs_hook=_without_repeats)
    except _RepeatedKey as repeated:
        raise CheckpointError(
            f"{file}: the header names {repeated} twice; the file is damaged or hostile"
        ) from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{file}: the safetensors header is not JSON ({error}); copy it again"
        ) from None
    if not isinstance(header, dict):
        raise CheckpointError(f"{file}: the safetensors header is not an object; copy the file again")
    payload = size - 8 - length
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    tensors = {name: _tensor(file, name, entry, size, payload) for name, entry in entries.items()}
    at = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        start, end = entry["data_offsets"]
        if start != at:
            raise CheckpointError(f"{file}: tensor {name!r} overlaps another or follows a gap; copy it again")
        at = end
    if at != payload:
        raise CheckpointError(f"{file}: {payload - at} bytes belong to no tensor; copy the file again")
    return tensors


class _RepeatedKey(ValueError):
    """A JSON object names the same key twice."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedKey(next(repr(name) for name in names if names.count(name) > 1))
    return found


def _tensor(file: Path, name: str, entry: Any, size: int, payload: int) -> Tensor:
    """One header entry of a file of `size` bytes, checked against the `payload` of them that are values."""
    try:
        dtype, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        if isinstance(dtype, str) and dtype not in _BITS:
            known = ", ".join(sorted(_BITS))
            raise CheckpointError(f"{file}: tensor {name!r} has dtype {dtype!r}, which is none of {known}")
        bits = _BITS[dtype]
        numbers = [*shape, start, end]
        sound = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers)
        sound = sound and end - start == math.prod(shape) * bits // 8
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(
            f"{file}: malformed header entry for tensor {name!r}; copy the file again"
        ) from None
    if not sound or end > payload:
        raise CheckpointError(
            f"{file}: tensor {name!r} does not fit the file (offsets {start}..{end} of {payload} bytes); "
            "the file is truncated or damaged, copy it again"
        )
    return Tensor(dtype=dtype, shape=tuple(shape), file=file.name, offset=size - payload + start)


def _index(path: Path) -> dict[str, str]:
    """The index of a sharded checkpoint: tensor name -> file name. Empty where there is none."""
    index = path / INDEX
    if not index.exists():
        return {}
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(v and isinstance(v, str) for v in weight_map.values()):
        raise CheckpointError(f"{index}: no 'weight_map' of tensor names to file names; save it again")
    if not weight_map:
        raise CheckpointError(f"{index}: names no tensor at all; save it again")
    for tensor, name in weight_map.items():
        if Path(name).name != name or name == "..":
            raise CheckpointError(
                f"{index}: {name!r}, for tensor {tensor!r}, points outside the checkpoint folder; refused"
            )
    return weight_map


def _weight_files(path: Path, promised: Mapping[str, str]) -> list[Path]:
    """The safetensors files of a checkpoint, by its index where it has one."""
    names = sorted(set(promised.values())) or sorted(file.name for file in path.glob("*.safetensors"))
    if not names:
        raise CheckpointError(f"{path}: no *.safetensors file; only safetensors checkpoints are read")
    missing = [name for name in names if not (path / name).exists()]
    if missing:
        tensors = [tensor for tensor, name in promised.items() if name == missing[0]]
        more = f" and {len(tensors) - 1} more" if len(tensors) > 1 else ""
        told = f"shard {missing[0]} of the index, with tensor {tensors[0]!r}{more}, is missing"
        raise CheckpointError(f"{path}: {told}; copy it too")
    return [path / name for name in names]
