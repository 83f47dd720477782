"""Environments of releases in the cache: one per release, over shared packages or with its own pins.

An environment is one once its record is written, which is done last, so what is found is usable. The record
lists every file with size and time of change, and what is not at the release's pin.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from filelock import FileLock, Timeout

from contracts.closure import missing, off_pin
from contracts.facts import LIBRARIES, SideName
from contracts.installer import InstallFailed, install, make_environment
from contracts.interpreters import markers, package_paths
from contracts.kept import is_intact, manifest
from contracts.probes.identity import RELATED
from contracts.records import catalog
from contracts.sides import make_folder
from contracts.wanted import BadRequirement, Wanted

FORMAT = 2
"""Number of the record's format; environments of another are made anew."""
RECORD = "environment.json"
REQUIREMENTS = Path(__file__).parent / "requirements"
SHARED = "shared"
JUDGED = ("sglang==", "speculators==", "hs-connectors==")
"""What the overlays are about, so that it is never shared."""
ROUNDS = 6
"""Times that installing a package may bring new requirements."""
EXACT, OVER = "-exact", "-over-"
"""Endings of the names of environments that are no overlays over the shared packages."""
OURS = re.compile(r"(sglang|speculators)-(\d|at-)[^/]*|shared-[0-9a-f]{12}")
"""Names of folders that are ours to list and to remove; the cache may be a folder that others use."""
UNUSED_KEPT = 60 * 24 * 3600.0
"""Seconds after which an environment that nobody used is pruned."""

Say = Callable[[str], None]
"""Told what is being done."""


class NotProvisioned(Exception):
    """There is no whole environment of that release. One line, with the command that makes it."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """One whole environment."""

    folder: Path
    library: str
    requirement: str
    version: str
    exact: bool
    """Made with all of the release's own pins; else an overlay over `shared`."""
    shared: str | None
    """Interpreter whose packages lie under the overlay."""
    off_pin: Mapping[str, tuple[str, str | None]]
    """Of the packages whose version matters: what the release asks for, and what is there."""
    size: int
    """Bytes of its own files."""
    source: str | None
    """Digest of the source tree that was installed; None for a release or a URL."""

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")

    @property
    def name(self) -> str:
        """What it is called."""
        return self.folder.name

    @classmethod
    def read(cls, folder: Path) -> Environment | None:
        """The environment in `folder`; None if it is not whole, or damaged since."""
        try:
            data = json.loads((folder / RECORD).read_text())
            files = data.pop("files")
            if data.pop("format") != FORMAT or not is_intact(folder, files):
                return None
            data["off_pin"] = {name: tuple(pair) for name, pair in data["off_pin"].items()}
            found = cls(folder=folder, **data)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if found.shared is not None and not Path(found.shared).exists():
            return None
        return found if Path(found.python).exists() else None


def root(cache: Path) -> Path:
    """Where environments are kept."""
    return cache / "environments"


def find(wanted: Wanted, cache: Path) -> Environment:
    """The environment of `wanted`: an exact one, else an overlay over the shared packages, else any other.

    Raises:
        NotProvisioned: there is none.

    """
    others = sorted(root(cache).glob(f"{wanted.name}{OVER}*")) if root(cache).is_dir() else []
    for folder in (root(cache) / f"{wanted.name}{EXACT}", root(cache) / wanted.name, *others):
        found = Environment.read(folder)
        if found is not None:
            if found.source != _source(wanted):
                told = f"{wanted.tree} changed since it was installed"
                raise NotProvisioned(f"{told}; install it again: contracts provision '{wanted.shown}'")
            _touch(folder)
            if found.shared is not None:
                _touch(Path(found.shared).parent.parent)
            return found
    command = f"contracts provision '{wanted.shown}'"
    raise NotProvisioned(f"there is no environment of {wanted.shown}; make it with: {command}")


def _source(wanted: Wanted) -> str | None:
    """Digest of a source tree: path, size and time of change of its Python files."""
    if wanted.tree is None:
        return None
    files = sorted(file for file in wanted.tree.rglob("*.py") if "build" not in file.parts)
    stamps = ((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return _digest(repr(list(stamps)))


def _touch(folder: Path) -> None:
    """Note that an environment was used."""
    with suppress(OSError):
        os.utime(folder / RECORD)


def interpreter(side: SideName, words: str, cache: Path) -> str:
    """The interpreter that somebody names for a side: itself, or a release, as `sglang==0.5.9`.

    Raises:
        BadRequirement: it reads like a release and is none, or is one of the other side's library.
        NotProvisioned: there is no environment of that release.

    """
    if Path(words).exists() or not re.search(r"==|@", words):
        return words
    wanted = Wanted.parse(words)
    if wanted.library != LIBRARIES[side]:
        raise BadRequirement(f"--{side}-python: {words} is of {wanted.library}, not of {LIBRARIES[side]}")
    return find(wanted, cache).python


def provision(
    wanted: Wanted, cache: Path, *, exact: bool = False, over: str | None = None, say: Say = lambda _: None
) -> Environment:
    """The environment of `wanted`; made if there is none that is whole.

    Args:
        wanted: library and release, or where its source is, which is always installed anew.
        cache: where environments are kept.
        exact: install the release with all its own pins, torch included.
        over: interpreter whose packages lie under the overlay; None: the ones kept in the cache, which are
            installed if need be.
        say: told what is being done.

    Raises:
        InstallFailed: an installation went wrong.
        CacheUnavailable: `cache` cannot be written.

    """
    make_folder(root(cache))
    kind = EXACT if exact else "" if over is None else f"{OVER}{_digest(over)}"
    folder = root(cache) / f"{wanted.name}{kind}"
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        below = None if exact else over or str(_shared_folder(cache) / "bin" / "python")
        found = None if wanted.release is None else Environment.read(folder)
        if found is not None and found.shared == below:
            _touch(folder)
            return found
        if below is not None and over is None:
            _make_shared(cache, say)
        with _building(folder):
            record = _build(wanted, folder, below, say)
            (folder / RECORD).write_text(json.dumps(record))
        found = Environment.read(folder)
        if found is None:
            raise InstallFailed(f"{wanted.shown}: {folder} was changed while it was made; try again")
        return found


def _digest(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()[:8]


def _build(wanted: Wanted, folder: Path, shared: str | None, say: Say) -> dict[str, object]:
    """Install `wanted` into a new environment in `folder`; returns its record."""
    python = make_environment(folder, shared or sys.executable)
    own = [str(_site_packages(folder))]
    below = [] if shared is None else package_paths(shared)
    say(f"installing {wanted.shown}" + ("" if shared else " and everything it asks for"))
    if shared is None:
        install(python, [wanted.requirement], wanted.shown)
    else:
        lines = "".join(f"import site; site.addsitedir({path!r})\n" for path in below)
        (_site_packages(folder) / "shared.pth").write_text(lines)
        install(python, ["--no-deps", wanted.requirement], wanted.shown)
        _complete(wanted, python, own, below, say)
    version = next(iter(metadata.distributions(name=wanted.library, path=own))).version
    differing = {
        name: pair for name, pair in off_pin(wanted.library, [*own, *below]).items() if name in RELATED
    }
    return {
        **_record_of(folder),
        "library": wanted.library,
        "requirement": wanted.shown,
        "version": version,
        "exact": shared is None,
        "shared": shared,
        "off_pin": differing,
        "source": _source(wanted),
    }


def _complete(wanted: Wanted, python: Path, own: list[str], below: list[str], say: Say) -> None:
    """Install what an overlay needs of its own, until nothing is missing."""
    asked = markers(str(python))
    unstated = catalog(wanted.library).needs.get(wanted.release or "", ())
    needed: list[str] = []
    for _ in range(ROUNDS):
        needed = missing(wanted.library, own, below, asked, unstated)
        if not needed:
            return
        say(f"installing {', '.join(needed)}")
        install(python, ["--no-deps", *needed], f"{wanted.shown} needs {', '.join(needed)}")
    raise InstallFailed(f"{wanted.shown}: after {ROUNDS} rounds it still needs {', '.join(needed)}")


def _record_of(folder: Path) -> dict[str, object]:
    """The record of an environment that was built in `folder`; its library and the rest are those of none."""
    files = manifest(folder)
    return {
        "format": FORMAT,
        "library": SHARED,
        "requirement": SHARED,
        "version": "",
        "exact": True,
        "shared": None,
        "off_pin": {},
        "source": None,
        "size": sum(size for size, _ in files.values()),
        "files": files,
    }


def _shared_folder(cache: Path) -> Path:
    """Where the shared packages are kept: of another list of them, elsewhere."""
    digest = hashlib.sha256()
    for name in ("torch.txt", "cpu.txt"):
        digest.update((REQUIREMENTS / name).read_bytes())
    return root(cache) / f"{SHARED}-{digest.hexdigest()[:12]}"


def _make_shared(cache: Path, say: Say) -> None:
    """Install the shared packages if need be."""
    folder = _shared_folder(cache)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if Environment.read(folder) is not None:
            _touch(folder)
            return
        with _building(folder):
            say("installing torch, which all releases share")
            python = make_environment(folder, sys.executable)
            install(python, ["-r", str(REQUIREMENTS / "torch.txt")], "torch")
            say("installing what both libraries import")
            lines = (REQUIREMENTS / "cpu.txt").read_text().splitlines()
            common = folder / "shared.txt"
            common.write_text("\n".join(line for line in lines if not line.startswith(JUDGED)))
            install(python, ["--no-deps", "-r", str(common)], "the shared packages")
            (folder / RECORD).write_text(json.dumps(_record_of(folder)))


@contextmanager
def _building(folder: Path) -> Iterator[None]:
    """Build in `folder`, which is no environment before its record is written, and goes if that never is.

    It is built where it stays: an environment has its own path written into its scripts.
    """
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield
    except OSError as error:
        raise InstallFailed(f"{folder.name}: {error.strerror or error}") from None
    finally:
        if not (folder / RECORD).exists():
            shutil.rmtree(folder, ignore_errors=True)


def environments(cache: Path) -> Iterator[tuple[Path, Environment | None]]:
    """Every folder of ours that is or was to be an environment, with the environment if it is whole."""
    if not root(cache).is_dir():
        return
    for folder in sorted(root(cache).iterdir()):
        if folder.is_dir() and OURS.fullmatch(folder.name):
            yield folder, Environment.read(folder)


def size_of(folder: Path) -> int:
    """Bytes of the files of a folder."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())


def prune(cache: Path, *, everything: bool = False, now: float | None = None) -> list[tuple[Path, int]]:
    """Remove what is damaged, half made or long unused, or everything; returns folders and bytes.

    What somebody is making meanwhile stays, and so do shared packages under an environment that stays.
    """
    now = time.time() if now is None else now
    removed: list[tuple[Path, int]] = []
    shared_by_kept: set[Path] = set()
    overlays_first = sorted(environments(cache), key=lambda entry: entry[0].name.startswith(SHARED))
    for folder, item in overlays_first:
        try:
            with FileLock(folder.with_name(f"{folder.name}.lock"), blocking=False):
                item = Environment.read(folder)  # it may have been made meanwhile
                wanted = folder in shared_by_kept or not _is_old(folder, now)
                if item is None or everything or not wanted:
                    removed.append((folder, size_of(folder)))
                    shutil.rmtree(folder, ignore_errors=True)
                    continue
        except Timeout:
            pass  # somebody is making it
        if item is not None and item.shared is not None:
            shared_by_kept.add(Path(item.shared).parent.parent)
    return removed


def damaged_files(environment: Environment) -> list[str]:
    """Installed files whose contents differ from the checksum that their package states for them."""
    site, damaged = _site_packages(environment.folder), []
    for distribution in metadata.distributions(path=[str(site)]):
        for file in distribution.files or ():
            if file.hash is None or file.hash.mode != "sha256":
                continue
            try:
                digest = hashlib.sha256((site / str(file)).read_bytes()).digest()
            except OSError:
                damaged.append(str(file))
                continue
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
                damaged.append(str(file))
    return damaged


def _is_old(folder: Path, now: float) -> bool:
    try:
        return now - (folder / RECORD).stat().st_mtime > UNUSED_KEPT
    except OSError:
        return True


def _site_packages(folder: Path) -> Path:
    return next((folder / "lib").glob("python3*")) / "site-packages"
