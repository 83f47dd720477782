"""What changed since a commit of git, and which releases that is about."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from contracts.facts import LIBRARIES, SideName
from contracts.records import catalog

PACKAGE = "contracts/"
QUIET = (".md", ".txt", ".j2", ".js")
"""Ends of names of files of this package that change no verdict, unless they pin a release."""
PINNING = (".txt", ".in", ".lock", ".toml", ".cfg", ".ini", ".Dockerfile", "Dockerfile")
"""Ends of names of files that pin releases."""
TABLES = ("known.toml", "catalog.toml", "tox.ini")
"""Ends of names of files that name many releases; the first two are read for what they say."""
TIMEOUT = 60.0
"""Seconds that one command of git may take."""
_PIN = re.compile(r"^\+.*?\b(sglang|speculators)==([0-9]\w*(?:\.\w+)*)", re.MULTILINE)

Side = tuple[SideName, str]
"""A side and a release of its library."""


class GitError(Exception):
    """git cannot say what changed; one line."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a change asks for."""

    why: str
    sides: tuple[Side, ...] = ()
    """Releases that it is about; none: it may be about any, so the newest are judged."""


def since(ref: str, root: Path) -> list[Change]:
    """What changed between the commit at which the work of HEAD left `ref`, and the working tree.

    Args:
        ref: a branch, tag or commit.
        root: a folder of a clone.

    Raises:
        GitError: there is no git, no repository, or no such commit.

    """

    def git(*words: str) -> str:
        try:
            done = subprocess.run(
                ["git", "-C", str(root), *words], capture_output=True, timeout=TIMEOUT, check=True
            )
        except FileNotFoundError:
            raise GitError("there is no git here; --pairs newest and --pairs all need none") from None
        except subprocess.TimeoutExpired:
            raise GitError(f"git {words[0]} took longer than {TIMEOUT:g} s") from None
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip().splitlines()
            told = f"git {words[0]}: {(said or ['no output'])[-1]}"
            if words[0] == "merge-base":
                told += "; a shallow clone does not have it: fetch the whole history (fetch-depth: 0)"
            raise GitError(told) from None
        return done.stdout.decode(errors="replace")

    if ref.startswith("-"):
        raise GitError(f"--since {ref}: not a name of a commit")
    root = Path(git("rev-parse", "--show-toplevel").strip())
    base = git("merge-base", ref, "HEAD").strip()
    files = git("diff", "--name-only", base).splitlines()
    pinning = [file for file in files if file.endswith(PINNING) and not file.endswith(TABLES)]
    pins = _PIN.findall(git("diff", "--unified=0", base, "--", *pinning)) if pinning else []

    def before(file: str) -> str:
        there = git("ls-tree", "--name-only", base, "--", file)
        return git("show", f"{base}:{file}") if there else ""

    return list(_changes(files, pins, before, root))


def _changes(
    files: Sequence[str], pins: Sequence[tuple[str, str]], before: Callable[[str], str], root: Path
) -> Iterable[Change]:
    names = {library: side for side, library in LIBRARIES.items()}
    for library, release in dict.fromkeys(pins):
        yield Change(why=f"{library}=={release} is pinned", sides=((names[library], release),))
    for file in files:
        path = PurePosixPath(file)
        if file == f"{PACKAGE}known.toml":
            yield _known(_entries(before(file)), _entries(_text(root / file)))
        elif file == f"{PACKAGE}releases/catalog.toml":
            yield _catalogue(tomllib.loads(before(file)))
        elif file.startswith(f"{PACKAGE}releases/") and path.suffix == ".json":
            library = "sglang" if path.parts[2] == "targets" else path.parts[2]
            yield Change(why=file, sides=((names[library], path.stem),))
        elif file.startswith(f"{PACKAGE}probes/"):
            yield Change(why=file, sides=tuple(_all_of(path)))
        elif file.startswith(PACKAGE) and not file.endswith(QUIET):
            yield Change(why=file)


def _all_of(path: PurePosixPath) -> Iterable[Side]:
    """Every release of the libraries that a module of the probes is about."""
    for side, library in LIBRARIES.items():
        other = next(name for name in LIBRARIES.values() if name != library)
        shared = side == "serving" and "kernels" in path.parts
        if shared or ("kernels" not in path.parts and not path.name.startswith(other)):
            yield from ((side, release) for release in catalog(library).matrix)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _entries(text: str) -> list[dict[str, Any]]:
    try:
        entries: list[dict[str, Any]] = tomllib.loads(text).get("known", [])
    except tomllib.TOMLDecodeError as error:
        raise GitError(f"{PACKAGE}known.toml: not readable as TOML ({error})") from None
    return entries


def _known(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Change:
    """The releases that entries speak of which came, went or changed."""
    changed = [item for item in before if item not in after] + [item for item in after if item not in before]
    sides = {
        (side, release): None
        for side, library in LIBRARIES.items()
        for item in changed
        for release in _range(item.get(side, "")).filter(catalog(library).matrix, prereleases=True)
    }
    told = f"{PACKAGE}known.toml, {len(changed)} entries"
    return Change(why=told, sides=tuple(sides) or (("serving", catalog("sglang").matrix[-1]),))


def _range(text: str) -> SpecifierSet:
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        raise GitError(f"{PACKAGE}known.toml: {text!r} is no range of releases") from None


def _catalogue(before: dict[str, Any]) -> Change:
    sides = tuple(
        (side, release)
        for side, library in LIBRARIES.items()
        for release in catalog(library).matrix
        if release not in before.get(library, {}).get("matrix", ())
    )
    return Change(why=f"{PACKAGE}releases/catalog.toml", sides=sides)
