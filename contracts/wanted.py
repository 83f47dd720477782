"""A release, a source tree or a branch of a library that somebody wants to judge."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from contracts.facts import LIBRARIES

_PATH = re.compile(r"^(?P<library>[A-Za-z]+)\s*@\s*(?P<path>[^:]+)$")
EXAMPLES = "sglang==0.5.9, sglang@/path/to/tree, sglang@git+https://host/repository@branch"


class BadRequirement(Exception):
    """What was asked for is no library of ours, or no release of one. One line."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One library from one place."""

    library: str
    requirement: str
    """As an installer is told."""
    name: str
    """Of the environment's folder: the release, or a digest of the place."""
    release: str | None
    """None for a source tree or a URL, whose number is known once it is built."""

    @property
    def tree(self) -> Path | None:
        """The source tree; None for a release or a URL."""
        place = self.requirement.partition(" @ ")[2]
        return Path(unquote(urlparse(place).path)) if place.startswith("file:") else None

    @property
    def shown(self) -> str:
        """The requirement as it may be printed and stored: without a password or token of its URL."""
        return shown(self.requirement)

    @classmethod
    def parse(cls, words: str) -> Wanted:
        """Read `library==release`, `library@folder` or `library@url`.

        Raises:
            BadRequirement: it is none of these, or of another library.

        """
        match = _PATH.match(words)
        if match and not match["path"].startswith("git+"):
            return cls._tree(words, match["library"].lower(), Path(match["path"]).expanduser())
        try:
            asked = Requirement(re.sub(r"^(\w+)@", r"\1 @ ", words))
        except InvalidRequirement:
            raise BadRequirement(f"{words!r} is not understood; examples: {EXAMPLES}") from None
        library = _known(words, asked.name.lower())
        if asked.extras or asked.marker:
            raise BadRequirement(f"{words!r}: extras and markers mean nothing here; write {library}==RELEASE")
        if asked.url:
            return cls._place(library, f"{library} @ {asked.url}")
        pins = list(asked.specifier)
        if len(pins) != 1 or pins[0].operator != "==" or pins[0].version.endswith(".*"):
            raise BadRequirement(f"{words!r} does not name one release; write {library}==RELEASE")
        try:
            release = str(Version(pins[0].version))
        except InvalidVersion:
            raise BadRequirement(f"{words!r}: {pins[0].version!r} is no release number") from None
        return cls(
            library=library, requirement=f"{library}=={release}", name=f"{library}-{release}", release=release
        )

    @classmethod
    def _tree(cls, words: str, library: str, folder: Path) -> Wanted:
        library = _known(words, library)
        if not folder.is_dir():
            raise BadRequirement(f"{words!r}: there is no folder {folder}")
        for tree in (folder, folder / "python"):  # sglang keeps its Python in a folder of its repository
            if (tree / "pyproject.toml").exists() or (tree / "setup.py").exists():
                return cls._place(library, f"{library} @ {tree.resolve().as_uri()}")
        raise BadRequirement(f"{words!r}: {folder} has no pyproject.toml, nor has its folder python")

    @classmethod
    def _place(cls, library: str, requirement: str) -> Wanted:
        digest = hashlib.sha256(requirement.encode()).hexdigest()[:8]
        return cls(library=library, requirement=requirement, name=f"{library}-at-{digest}", release=None)


def _known(words: str, library: str) -> str:
    if library not in LIBRARIES.values():
        raise BadRequirement(f"{words!r}: {library} is none of {', '.join(LIBRARIES.values())}")
    return library


def shown(words: str) -> str:
    """What somebody named, without a password or token of its URL."""
    return re.sub(r"//[^/@]+@", "//***@", words)
