"""What is recorded about releases: which are known, and the surface that each showed.

`releases/catalog.toml` lists the published releases of both libraries and the oldest that the probe
speaks; `releases/<library>/<release>/<recipe>.json` holds the facts that the probe reported.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version
from pydantic import TypeAdapter

from contracts.facts import LIBRARIES, DraftFacts

RELEASES = Path(__file__).parent / "releases"
_FACTS = TypeAdapter(DraftFacts)


class UnsupportedRelease(Exception):
    """The installed release is one that the probe does not speak; one line."""


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """Published releases of one library, oldest first."""

    library: str
    known: tuple[str, ...]
    oldest: str
    """Oldest release that the probe is confirmed to speak."""
    matrix: tuple[str, ...]
    """Those that the matrix covers: the newest patch of each minor."""


@cache
def catalog(library: str) -> Catalog:
    """The catalogue entry of `library`."""
    data = tomllib.loads((RELEASES / "catalog.toml").read_text(encoding="utf-8"))[library]
    return Catalog(
        library=library, known=tuple(data["known"]), oldest=data["oldest"], matrix=tuple(data["matrix"])
    )


def supported_releases() -> list[str]:
    """Every release that the matrix covers, as `library==release`, those of training first."""
    return [f"{name}=={release}" for name in LIBRARIES.values() for release in catalog(name).matrix]


def check_supported(library: str, version: str) -> None:
    """Refuse a release that the probe cannot judge. A release newer than all known ones is judged.

    Raises:
        UnsupportedRelease: too old, or not a version at all.

    """
    entry = catalog(library)
    spoken = [known for known in entry.known if Version(known) >= Version(entry.oldest)]
    names = f"{library} releases that can be judged: {', '.join(spoken)} and newer"
    try:
        installed = Version(version)
    except InvalidVersion:
        raise UnsupportedRelease(f"{library} {version!r} is not a release number; {names}") from None
    if installed < Version(entry.oldest):
        raise UnsupportedRelease(f"{library} {version} is older than {entry.oldest}; {names}")


def recorded_releases(library: str, root: Path = RELEASES) -> list[str]:
    """Releases of `library` with a recorded surface, oldest first."""
    folder = root / library
    names = [entry.name for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []
    return sorted(names, key=Version)


def baseline(library: str, version: str, root: Path = RELEASES) -> str | None:
    """The release whose record `version` is compared with: its own, else the newest older, else the oldest."""
    recorded = recorded_releases(library, root)
    older = [name for name in recorded if Version(name) <= Version(version)]
    return older[-1] if older else next(iter(recorded), None)


def surface(library: str, release: str, root: Path = RELEASES) -> dict[str, DraftFacts]:
    """The recorded facts of a release, by recipe."""
    return {
        file.stem: from_json(file.read_bytes()) for file in sorted((root / library / release).glob("*.json"))
    }


def flatten(data: Any, path: str = "") -> dict[str, Any]:
    """Leaves of nested JSON data by dotted path; a list is a leaf."""
    if not isinstance(data, Mapping):
        return {path: data}
    leaves: dict[str, Any] = {}
    for key, value in data.items():
        leaves |= flatten(value, f"{path}.{key}" if path else str(key))
    return leaves


def as_json(facts: DraftFacts) -> str:
    """The stable text of recorded facts: keys sorted, one leaf per line, newline at the end."""
    return _layout(json.loads(_FACTS.dump_json(facts))) + "\n"


def from_json(text: str | bytes) -> DraftFacts:
    """The facts that `as_json` wrote; a field that was added since has its default."""
    return _FACTS.validate_json(text)


def _rounded(value: Any) -> Any:
    """Floats to six digits: libraries and processors differ in the last ones."""
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _layout(data: Any, indent: str = "") -> str:
    """JSON with one line per leaf, so that a difference of two records reads line by line."""
    if not isinstance(data, dict) or not data:
        return json.dumps(_rounded(data))
    inner = indent + "  "
    lines = [f"{inner}{json.dumps(key)}: {_layout(value, inner)}" for key, value in sorted(data.items())]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
