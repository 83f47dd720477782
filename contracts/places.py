"""Where a checkpoint lies: a folder, read piece by piece and never beyond itself.

Other places (a single file, a repository of a hub) are in contracts.header.sources. Standard library only,
because probes use it too.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class CheckpointError(Exception):
    """The checkpoint cannot be read: one line that says what, where and what to do."""


class Place(Protocol):
    """Files that can be read in pieces."""

    @property
    def where(self) -> str:
        """The place, as the user named it."""

    def label(self, name: str) -> str:
        """A file, for messages."""

    def files(self) -> list[str]:
        """Names of the files that lie there, in order."""

    def size(self, name: str) -> int:
        """Bytes of a file.

        Raises:
            CheckpointError: there is no such file, or it must not be read.

        """

    def read(self, name: str, offset: int, length: int) -> bytes:
        """A piece of a file; shorter only where the file ends.

        Raises:
            CheckpointError: there is no such file, or it must not be read.

        """


@dataclass(frozen=True)
class Folder:
    """A folder of this machine."""

    path: Path

    @property
    def where(self) -> str:
        """The folder, as the user named it."""
        return str(self.path)

    def label(self, name: str) -> str:
        """The path of a file."""
        return str(self.path / name)

    def files(self) -> list[str]:
        """Names of the files in the folder itself.

        Raises:
            CheckpointError: there is no such folder.

        """
        if not self.path.is_dir():
            raise CheckpointError(f"{self.path}: not a folder; give the folder that holds config.json")
        try:
            return sorted(entry.name for entry in self.path.iterdir() if not entry.is_dir())
        except OSError as error:
            raise CheckpointError(f"{self.path}: cannot be read ({error.strerror})") from None

    def size(self, name: str) -> int:
        """Bytes of a file."""
        file = self._checked(name)
        try:
            return file.stat().st_size
        except OSError as error:
            raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None

    def read(self, name: str, offset: int, length: int) -> bytes:
        """A piece of a file."""
        file = self._checked(name)
        try:
            with file.open("rb") as stream:
                stream.seek(offset)
                return stream.read(length)
        except OSError as error:
            raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None

    def _checked(self, name: str) -> Path:
        """The file, if it is an ordinary one that lies in the folder itself."""
        file = self.path / name
        try:
            status = file.stat()
        except OSError as error:
            if file.is_symlink():
                raise CheckpointError(f"{file}: a link that leads nowhere; copy the file itself") from None
            gone = isinstance(error, (FileNotFoundError, NotADirectoryError))
            told = (
                "no such file; is this a checkpoint folder?" if gone else f"cannot be read ({error.strerror})"
            )
            raise CheckpointError(f"{file}: {told}") from None
        if not stat.S_ISREG(status.st_mode):
            raise CheckpointError(f"{file}: no ordinary file; copy the checkpoint again")
        home, real = self.path.resolve(), file.resolve()
        if not real.is_relative_to(home) and not real.is_relative_to(_blobs(home)):
            raise CheckpointError(
                f"{file}: a link to {real}, outside the folder; not followed: copy it, or give its folder"
            )
        return file


def _blobs(home: Path) -> Path:
    """Where a snapshot in the cache of huggingface_hub has its files; the folder itself if it is none."""
    is_snapshot = home.parent.name == "snapshots" and (home.parent.parent / "blobs").is_dir()
    return home.parent.parent / "blobs" if is_snapshot else home
