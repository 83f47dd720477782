"""A repository of the hub, of which config.json and pieces of safetensors files are read by HTTP range."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from contracts.places import CheckpointError

TIMEOUT = "10"
"""Seconds that the hub may take for one answer, unless HF_HUB_DOWNLOAD_TIMEOUT says otherwise."""
HEAD = 2**16
"""Bytes at the beginning of a file that are asked for at once."""


@dataclass(frozen=True)
class Repository:
    """A model repository, at a revision or at the newest."""

    name: str
    revision: str | None = None

    @property
    def where(self) -> str:
        """The repository, as the user named it."""
        return self.name + (f"@{self.revision}" if self.revision else "")

    def label(self, name: str) -> str:
        """A file of the repository."""
        return f"{self.where}/{name}"

    @cached_property
    def _system(self) -> Any:
        os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", TIMEOUT)
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        from huggingface_hub import HfFileSystem

        return HfFileSystem(skip_instance_cache=True)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        with _in_one_line(self.where):
            entries = self._system.ls(self.where, detail=True)
        return {
            entry["name"].rpartition("/")[2]: entry["size"] or 0
            for entry in entries
            if entry["type"] == "file"
        }

    def files(self) -> list[str]:
        """Names of the files at the top of the repository."""
        return sorted(self._sizes)

    def size(self, name: str) -> int:
        """Bytes of a file."""
        if name not in self._sizes:
            raise CheckpointError(f"{self.label(name)}: no such file in the repository")
        return self._sizes[name]

    def read(self, name: str, offset: int, length: int) -> bytes:
        """A piece of a file, by one request; what lies at its beginning is kept."""
        end = min(offset + length, self.size(name))
        if name not in self._heads:
            self._heads[name] = self._fetch(
                name, 0, min(max(end, HEAD) if offset < HEAD else HEAD, self.size(name))
            )
        head = self._heads[name]
        return head[offset:end] if end <= len(head) else self._fetch(name, offset, end)

    @cached_property
    def _heads(self) -> dict[str, bytes]:
        """The first bytes of each file that was read: its length prefix, and the header of most drafts."""
        return {}

    def _fetch(self, name: str, start: int, end: int) -> bytes:
        if end <= start:
            return b""
        with _in_one_line(self.label(name)):
            data: bytes = self._system.cat_file(self.label(name), start=start, end=end, cache_type="none")
        if len(data) > end - start:
            told = "the hub does not serve pieces of files; download it first"
            raise CheckpointError(f"{self.label(name)}: {told}")
        return data


@contextmanager
def _in_one_line(what: str) -> Iterator[None]:
    """Say in one line why the hub did not answer."""
    from huggingface_hub import constants
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        yield
    except CheckpointError:
        raise
    except OfflineModeIsEnabled:
        told = "HF_HUB_OFFLINE is set; unset it, or give a folder"
    except Exception as error:  # whatever the hub's library or its HTTP library raises
        told = _why(error) or f"the hub at {constants.ENDPOINT} does not answer ({type(error).__name__})"
    else:
        return
    raise CheckpointError(f"{what}: {told}")


def _why(error: BaseException | None) -> str | None:
    """Why the hub refused, by what stands behind an exception; None if it never answered."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    while error is not None:
        if isinstance(error, GatedRepoError):
            return "the repository is gated; accept its terms on the hub and log in (hf auth login)"
        if isinstance(error, RepositoryNotFoundError):
            return "no such repository, or a private one; see the name, or log in (hf auth login)"
        if isinstance(error, RevisionNotFoundError):
            return "no such revision; see the branches and tags of the repository"
        if isinstance(error, HfHubHTTPError):
            status = getattr(error.response, "status_code", "?")
            return f"the hub at {constants.ENDPOINT} answered with status {status}; try again later"
        if isinstance(error, FileNotFoundError) and error.__cause__ is None:
            return "no such repository, revision or file"
        error = error.__cause__
    return None
