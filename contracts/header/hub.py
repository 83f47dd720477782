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
        """A piece of a file, by one request."""
        end = min(offset + length, self.size(name))
        if end <= offset:
            return b""
        with _in_one_line(self.label(name)):
            data: bytes = self._system.cat_file(self.label(name), start=offset, end=end)
        if len(data) > end - offset:
            raise CheckpointError(
                f"{self.label(name)}: the hub does not serve pieces of files; download it first"
            )
        return data


@contextmanager
def _in_one_line(what: str) -> Iterator[None]:
    """Say in one line why the hub did not answer."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except GatedRepoError:
        told = "the repository is gated; accept its terms on the hub and log in (hf auth login)"
    except RepositoryNotFoundError:
        told = "no such repository, or a private one; see the name, or log in (hf auth login)"
    except RevisionNotFoundError:
        told = "no such revision; see the branches and tags of the repository"
    except OfflineModeIsEnabled:
        told = "HF_HUB_OFFLINE is set; unset it, or give a folder"
    except FileNotFoundError:
        told = "no such repository, revision or file"
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "?")
        told = f"the hub at {constants.ENDPOINT} answered with status {status}; try again later"
    except CheckpointError:
        raise
    except Exception as error:  # whatever its HTTP library raises
        told = f"the hub at {constants.ENDPOINT} does not answer ({type(error).__name__}); see the network"
    else:
        return
    raise CheckpointError(f"{what}: {told}")
