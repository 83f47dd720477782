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

from contracts.places import CheckpointError, Folder, Place

__all__ = ["Checkpoint", "CheckpointError", "Tensor", "header", "read", "read_header", "read_json", "tensors"]

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
MAX_HEADER = 8 * 2**20
"""Bytes of a header; a draft of a thousand tensors has 150 KB. The format itself allows 100 MB, which would
take gigabytes to parse."""
MOST_TENSORS = 20_000
"""Tensors of a checkpoint; a draft of eight layers with 256 experts each has 6,000."""
MAX_JSON = 8 * 2**20
"""Bytes of a JSON file."""
MAX_RANK = 16
"""Dimensions of a tensor."""
LFS_POINTER = b"version "
"""How the text begins that Git LFS keeps in the place of a file."""
PICKLED = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
"""Endings of files that hold pickled weights."""

_BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64,
    "F64": 64, "C64": 64,
}  # fmt: skip


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
    place = Folder(path)
    files = place.files()
    return Checkpoint(path=path, config=json_object(place, CONFIG), tensors=tensors(place, files))


def tensors(place: Place, files: list[str]) -> dict[str, Tensor]:
    """The tensors of all shards.

    Args:
        place: where they lie.
        files: names of the files there.

    Raises:
        CheckpointError: missing, truncated, malformed or inconsistent files.

    """
    promised = _index(place, files)
    found: dict[str, Tensor] = {}
    for file in _weight_files(place, files, promised):
        for name, tensor in header(place, file).items():
            if name in found:
                told = f"tensor {name!r} is in {found[name].file} too; keep one of the two files"
                raise CheckpointError(f"{place.label(file)}: {told}")
            found[name] = tensor
        if len(found) > MOST_TENSORS:
            told = f"more than {MOST_TENSORS} tensors, and no draft has as many; is it the right checkpoint?"
            raise CheckpointError(f"{place.where}: {told}")
    _check_index(place, promised, found)
    return found


def read_json(file: Path) -> dict[str, Any]:
    """The JSON object in `file`.

    Raises:
        CheckpointError: no such file, or not a JSON object.

    """
    return json_object(Folder(file.parent), file.name)


def json_object(place: Place, name: str) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        CheckpointError: no such file, or not a JSON object.

    """
    file, size = place.label(name), place.size(name)
    if size > MAX_JSON:
        raise CheckpointError(f"{file}: {size} bytes, no config is as large; save the checkpoint again")
    try:
        data = json.loads(place.read(name, 0, size).decode("utf-8"), object_pairs_hook=_without_repeats)
    except _RepeatedKey as repeated:
        raise CheckpointError(f"{file}: names the key {repeated} twice; save the checkpoint again") from None
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file}: not readable as JSON ({error}); save the checkpoint again") from None
    if not isinstance(data, dict):
        raise CheckpointError(f"{file}: expected a JSON object, found {type(data).__name__}")
    return data


def read_header(file: Path) -> dict[str, Tensor]:
    """Names, dtypes and shapes of the tensors in a safetensors file.

    Raises:
        CheckpointError: not a well-formed safetensors file.

    """
    return header(Folder(file.parent), file.name)


def header(place: Place, name: str) -> dict[str, Tensor]:
    """Names, dtypes and shapes of the tensors in a safetensors file.

    Raises:
        CheckpointError: not a well-formed safetensors file.

    """
    file, size = place.label(name), place.size(name)
    start = place.read(name, 0, 8)
    if start == LFS_POINTER:
        raise CheckpointError(f"{file}: a pointer of Git LFS, not the file itself; git lfs pull brings it")
    length = int.from_bytes(start, "little")
    if size < 8 or length > size - 8:
        told = f"truncated or not safetensors (header of {length} bytes in a file of {size})"
        raise CheckpointError(f"{file}: {told}; copy it again")
    if length > MAX_HEADER:
        told = f"a header of {length} bytes, and no draft has so many tensors"
        raise CheckpointError(f"{file}: {told}; is it the right file?")
    try:
        entries = json.loads(place.read(name, 8, length), object_pairs_hook=_without_repeats)
    except _RepeatedKey as repeated:
        told = f"the header names {repeated} twice; the file is damaged or hostile"
        raise CheckpointError(f"{file}: {told}") from None
    except (ValueError, RecursionError) as error:
        told = f"the safetensors header is not JSON ({error}); copy it again"
        raise CheckpointError(f"{file}: {told}") from None
    if not isinstance(entries, dict):
        raise CheckpointError(f"{file}: the safetensors header is not an object; copy the file again")
    entries.pop("__metadata__", None)
    payload = size - 8 - length
    found = {key: _tensor(file, key, entry, name, size, payload) for key, entry in entries.items()}
    _check_cover(file, found, payload, size - payload)
    return found


def _check_cover(file: str, found: Mapping[str, Tensor], payload: int, start: int) -> None:
    """Tensors have to lie side by side and to fill the file."""
    at = 0
    for name, tensor in sorted(found.items(), key=lambda item: (item[1].offset, item[1].size)):
        if tensor.offset - start != at:
            raise CheckpointError(f"{file}: tensor {name!r} overlaps another or follows a gap; copy it again")
        at += tensor.size
    if at != payload:
        raise CheckpointError(f"{file}: {payload - at} bytes belong to no tensor; copy the file again")


class _RepeatedKey(ValueError):
    """A JSON object names the same key twice."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _RepeatedKey(f"{name!r:.80}")
            seen.add(name)
    return found


def _tensor(file: str, name: str, entry: Any, place: str, size: int, payload: int) -> Tensor:
    """One header entry of a file of `size` bytes, checked against the `payload` of them that are values."""
    what = f"tensor {name!r:.200}"
    try:
        dtype, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        if isinstance(dtype, str) and dtype not in _BITS:
            known = ", ".join(sorted(_BITS))
            raise CheckpointError(f"{file}: {what} has dtype {dtype!r:.80}, which is none of {known}")
        bits = _BITS[dtype]
        if not isinstance(shape, list) or len(shape) > MAX_RANK:
            raise ValueError
        sound = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in (*shape, start, end))
        sound = sound and (end - start) * 8 == math.prod(shape) * bits
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"{file}: malformed header entry for {what}; copy the file again") from None
    if not sound or end > payload:
        told = f"{what} does not fit the file (offsets {start}..{end} of {payload} bytes)"
        raise CheckpointError(f"{file}: {told}; the file is truncated or damaged, copy it again")
    return Tensor(dtype=dtype, shape=tuple(shape), file=place, offset=size - payload + start)


def _index(place: Place, files: list[str]) -> dict[str, str]:
    """The index of a sharded checkpoint: tensor name -> file name. Empty where there is none."""
    if INDEX not in files:
        return {}
    weight_map, index = json_object(place, INDEX).get("weight_map"), place.label(INDEX)
    if not isinstance(weight_map, dict) or not all(v and isinstance(v, str) for v in weight_map.values()):
        raise CheckpointError(f"{index}: no 'weight_map' of tensor names to file names; save it again")
    if not weight_map:
        raise CheckpointError(f"{index}: names no tensor at all; save it again")
    for tensor, name in weight_map.items():
        if Path(name).name != name or name == ".." or "\\" in name:
            told = f"{name!r:.200}, for tensor {tensor!r:.200}, points outside the checkpoint folder; refused"
            raise CheckpointError(f"{index}: {told}")
    return weight_map


def _weight_files(place: Place, files: list[str], promised: Mapping[str, str]) -> list[str]:
    """The safetensors files of a checkpoint, by its index where it has one."""
    names = sorted(set(promised.values())) or [name for name in files if name.endswith(".safetensors")]
    if not names:
        pickled = [name for name in files if name.endswith(PICKLED)]
        if pickled:
            raise CheckpointError(
                f"{place.label(pickled[0])}: pickled weights, which are never opened, because that may run "
                "any code; save the draft as safetensors (safetensors.torch.save_file)"
            )
        raise CheckpointError(f"{place.where}: no *.safetensors file; only safetensors checkpoints are read")
    missing = [name for name in names if name not in files]
    if missing:
        tensors = [tensor for tensor, name in promised.items() if name == missing[0]]
        more = f" and {len(tensors) - 1} more" if len(tensors) > 1 else ""
        told = f"shard {missing[0]} of the index, with tensor {tensors[0]!r}{more}, is missing"
        raise CheckpointError(f"{place.where}: {told}; copy it too")
    return names


def _check_index(place: Place, promised: Mapping[str, str], tensors: Mapping[str, Tensor]) -> None:
    """Index and shards have to tell the same."""
    if not promised:
        return
    for name in (*promised, *tensors):
        said, found = promised.get(name), tensors.get(name)
        if found is None:
            what = f"tensor {name!r:.200} is in no shard"
        elif said is None:
            what = f"tensor {name!r:.200} of {found.file} is not in the index"
        elif said != found.file:
            what = f"tensor {name!r:.200} is in {found.file}, not in {said}"
        else:
            continue
        raise CheckpointError(f"{place.label(INDEX)}: {what}; copy the checkpoint again")
