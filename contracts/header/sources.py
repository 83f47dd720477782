"""Where drafts and targets come from: a folder, a single safetensors file, or a repository of the hub."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts import checkpoint
from contracts.checkpoint import CONFIG, PICKLED, Tensor
from contracts.header import draft as drafts
from contracts.header.draft import Draft
from contracts.header.maps import TYPES as MAPS
from contracts.header.origin import Writer, origin_of
from contracts.header.settings import Settings
from contracts.places import CheckpointError, Folder, Place
from contracts.served_target import ServedTarget

_REPOSITORY = re.compile(r"(?P<name>[\w][\w.-]*/[\w][\w.-]*)(@(?P<revision>[\w][\w./-]*))?")
MAX_MAP = 16 * 2**20
"""Bytes of a map that is read; the largest vocabularies have a quarter of a million tokens."""


@dataclass(frozen=True)
class SingleFile:
    """One safetensors file, with the config.json that lies beside it."""

    file: Path

    @property
    def where(self) -> str:
        """The file, as the user named it."""
        return str(self.file)

    def label(self, name: str) -> str:
        """The path of a file."""
        return str(self.file.parent / name)

    def files(self) -> list[str]:
        """The file, and config.json if there is one."""
        beside = [CONFIG] if (self.file.parent / CONFIG).exists() else []
        return [*beside, self.file.name]

    def size(self, name: str) -> int:
        """Bytes of a file."""
        return Folder(self.file.parent).size(name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """A piece of a file."""
        return Folder(self.file.parent).read(name, offset, length)


def find(named: str) -> Place:
    """The place that a user names.

    Raises:
        CheckpointError: it is none.

    """
    try:
        path = Path(named).expanduser()
        there, is_folder = path.exists() or path.is_symlink(), path.is_dir()
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, a user that is not there
        raise CheckpointError(f"{named:.80}: no name of a folder ({error!s:.80})") from None
    if is_folder:
        return Folder(path)
    if there:
        if path.suffix in PICKLED:
            told = "pickled weights, which are never opened, because that may run any code"
            raise CheckpointError(f"{named}: {told}; save them as safetensors")
        if path.suffix != ".safetensors":
            raise CheckpointError(f"{named}: neither a folder nor a safetensors file")
        return SingleFile(path)
    repository = _REPOSITORY.fullmatch(named)
    if repository:
        from contracts.header.hub import Repository  # only who asks the hub needs its library

        return Repository(repository["name"], repository["revision"])
    raise CheckpointError(
        f"{named}: no such folder or file; give a folder, a safetensors file, or org/name of the hub"
    )


def read_draft(named: str) -> Draft:
    """The draft in a place: its config, the headers of its tensors, and its maps of token ids.

    Raises:
        CheckpointError: it cannot be read, or its parts do not fit each other.

    """
    return draft_in(find(named))


def draft_in(place: Place) -> Draft:
    """The draft in a place that was found.

    Raises:
        CheckpointError: it cannot be read, or its parts do not fit each other.

    """
    files = place.files()
    if CONFIG not in files:
        if isinstance(place, SingleFile):
            told = "no config.json beside it, and without one nobody knows how it is to be read"
        else:
            told = "no config.json; is this a checkpoint?"
        raise CheckpointError(f"{place.where}: {told}")
    config = checkpoint.json_object(place, CONFIG)
    tensors = checkpoint.tensors(place, files)
    origin = origin_of(config, frozenset(tensors))
    nested = origin.writer is Writer.SPECULATORS
    weights = {tensor.file for tensor in tensors.values()}
    return Draft(
        name=place.where,
        origin=origin,
        config=Settings(place.label(CONFIG), drafts.flat(config) if nested else config),
        raw=config,
        tensors=drafts.served_names(tensors) if nested else tensors,
        d2t=_integers(place, tensors, "d2t"),
        t2d=_flags(place, tensors, "t2d"),
        beside=tuple(name for name in files if name not in {*weights, CONFIG, checkpoint.INDEX}),
    )


def read_target(named: str) -> ServedTarget:
    """The target in a place, by its config.json.

    Raises:
        CheckpointError: there is none, or it is no language model's.

    """
    place = find(named)
    if isinstance(place, SingleFile):
        return ServedTarget.read(place.file.parent)
    config: dict[str, Any] = checkpoint.json_object(place, CONFIG)
    return ServedTarget.of(config, Path(named))


def _map(place: Place, tensors: dict[str, Tensor], name: str) -> tuple[Tensor, bytes] | None:
    """The values of a map, under whichever name; None if there is none, or none that could be one."""
    tensor = next((tensors[it] for it in (name, f"model.{name}") if it in tensors), None)
    if tensor is None:
        return None
    if tensor.dtype not in MAPS[name] or len(tensor.shape) != 1 or tensor.size > MAX_MAP:
        return None  # a rule says so
    file = place.label(tensor.file)
    data = place.read(tensor.file, tensor.offset, tensor.size) if tensor.size else b""
    if len(data) != tensor.size:
        raise CheckpointError(f"{file}: tensor {name!r}: the file ends too soon; copy the checkpoint again")
    return tensor, data


def _integers(place: Place, tensors: dict[str, Tensor], name: str) -> list[int] | None:
    found = _map(place, tensors, name)
    if found is None:
        return None
    tensor, data = found
    return memoryview(data).cast("q" if tensor.dtype == "I64" else "i").tolist()


def _flags(place: Place, tensors: dict[str, Tensor], name: str) -> bytes | None:
    found = _map(place, tensors, name)
    return None if found is None else found[1]
