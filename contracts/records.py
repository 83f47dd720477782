"""What is recorded about releases: which are known, and the surface that each showed.

`releases/catalog.toml` lists the published releases of both libraries and the oldest that the probe
speaks; `releases/<library>/<release>.json` holds what the probe reported.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from filelock import FileLock
from packaging.version import InvalidVersion, Version
from pydantic import TypeAdapter

from contracts import deltas
from contracts.facts import LIBRARIES, DraftFacts, Refusal
from contracts.placing import write_whole

RELEASES = Path(__file__).parent / "releases"
FORMAT = 2
"""Number of the records' format."""
LIKE = "like"
"""Key that names the recipe from which another is told by its differences."""
BASE = "plain"


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
    needs: Mapping[str, tuple[str, ...]]
    """By release, requirements that it does not state and does not work without."""


@cache
def catalog(library: str) -> Catalog:
    """The catalogue entry of `library`."""
    data = tomllib.loads((RELEASES / "catalog.toml").read_text(encoding="utf-8"))[library]
    return Catalog(
        library=library,
        known=tuple(data["known"]),
        oldest=data["oldest"],
        matrix=tuple(data["matrix"]),
        needs={release: tuple(items) for release, items in data.get("needs", {}).items()},
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


@cache
def _facts() -> TypeAdapter[DraftFacts]:
    """Built when it is needed: that takes a while."""
    return TypeAdapter(DraftFacts)


@cache
def _refusals() -> TypeAdapter[tuple[Refusal, ...]]:
    return TypeAdapter(tuple[Refusal, ...])


def record_file(library: str, release: str, root: Path | None = None) -> Path:
    """Where the record of a release lies."""
    return (root or RELEASES) / library / f"{release}.json"


def recorded_releases(library: str, root: Path | None = None) -> list[str]:
    """Releases of `library` with a recorded surface, oldest first."""
    return sorted((file.stem for file in ((root or RELEASES) / library).glob("*.json")), key=Version)


def baseline(library: str, version: str, root: Path | None = None) -> str | None:
    """The release whose record `version` is compared with: its own, the newest older, or the oldest."""
    recorded = recorded_releases(library, root)
    older = [name for name in recorded if Version(name) <= Version(version)]
    return older[-1] if older else next(iter(recorded), None)


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a release was seen to show at the interface."""

    library: str
    release: str
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions under which it was seen, of the packages that can change it."""
    facts: Mapping[str, DraftFacts] = field(default_factory=dict)
    """About the draft of each recipe."""
    refusals: Mapping[str, tuple[Refusal, ...]] = field(default_factory=dict)
    """What the library raised for a recipe; recipes for which it raised nothing are left out."""
    traits: Mapping[str, Any] = field(default_factory=dict)
    """What does not depend on a recipe: target classes, options and their defaults."""


def read(library: str, release: str, root: Path | None = None) -> Record:
    """The record of a release.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is of another format, or damaged.

    """
    return parse(record_file(library, release, root).read_text(encoding="utf-8"))


def raw(library: str, release: str, root: Path | None = None) -> dict[str, Any]:
    """The record of a release as it is written; its facts are not made values of, which takes a while.

    Raises:
        FileNotFoundError: there is no record.
        ValueError: it is of another format, or damaged.

    """
    return _loaded(record_file(library, release, root).read_text(encoding="utf-8"))


def _loaded(text: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(text)
    if data.get("format") != FORMAT:
        raise ValueError(f"a record of format {data.get('format')}, and this is format {FORMAT}")
    return data


def parse(text: str) -> Record:
    """The record that `as_text` wrote; a field that was added since has its default.

    Raises:
        ValueError: it is of another format, or damaged.

    """
    data = _loaded(text)
    recipes: dict[str, Any] = data["recipes"]
    facts = {
        name: deltas.apply(recipes[item[LIKE]], item) if LIKE in item else item
        for name, item in recipes.items()
    }
    return Record(
        library=data["library"],
        release=data["release"],
        packages=data["packages"],
        facts={name: _facts().validate_python(item) for name, item in facts.items()},
        refusals={name: _refusals().validate_python(items) for name, items in data["refusals"].items()},
        traits=data["traits"],
    )


def as_text(record: Record) -> str:
    """The stable text of a record: keys sorted, one leaf a line; recipes as differences from `plain`."""
    plain = {name: json.loads(_facts().dump_json(facts)) for name, facts in record.facts.items()}
    plain = {name: rounded(item) for name, item in plain.items()}
    base = BASE if BASE in plain else next(iter(sorted(plain)), None)
    recipes = {
        name: item if name == base else {LIKE: base, **deltas.subtract(plain[str(base)], item)}
        for name, item in plain.items()
    }
    refusals = {
        name: json.loads(_refusals().dump_json(items)) for name, items in record.refusals.items() if items
    }
    return (
        _layout(
            {
                "format": FORMAT,
                "library": record.library,
                "release": record.release,
                "packages": dict(record.packages),
                "recipes": recipes,
                "refusals": refusals,
                "traits": json.loads(json.dumps(dict(record.traits))),
            }
        )
        + "\n"
    )


def update(library: str, release: str, change: Callable[[Record], Record], root: Path | None = None) -> None:
    """Change the record of a release, which may not be there yet; other processes may do so meanwhile."""
    file = record_file(library, release, root)
    file.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:16]
    with FileLock(Path(gettempdir()) / f"draft-contracts-{os.getuid()}-{digest}.lock"):
        before = read(library, release, root) if file.exists() else Record(library=library, release=release)
        write_whole(file, as_text(change(before)))


def surface(library: str, release: str, root: Path | None = None) -> dict[str, DraftFacts]:
    """The recorded facts of a release, by recipe."""
    return dict(read(library, release, root).facts)


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
    return _layout(json.loads(_facts().dump_json(facts))) + "\n"


def from_json(text: str | bytes) -> DraftFacts:
    """The facts that `as_json` wrote; a field that was added since has its default."""
    return _facts().validate_json(text)


def rounded(value: Any) -> Any:
    """Floats to six digits: libraries and processors differ in the last ones."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _layout(data: Any, indent: str = "") -> str:
    """JSON with one line per leaf, so that a difference of two records reads line by line."""
    if not isinstance(data, dict) or not data:
        return json.dumps(rounded(data))
    inner = indent + "  "
    lines = [f"{inner}{json.dumps(key)}: {_layout(value, inner)}" for key, value in sorted(data.items())]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
