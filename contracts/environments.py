"""Environments of releases in the cache: one per release, over shared packages or with its own pins.

An environment is built in a folder of its own and renamed when it is whole, so what is found is usable. Its
record lists every file with size and time of change, and what is not at the release's pin.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from filelock import FileLock

from contracts.closure import missing, off_pin
from contracts.facts import LIBRARIES, SideName
from contracts.installer import InstallFailed, install, make_environment
from contracts.probes.identity import RELATED
from contracts.sides import is_intact, make_folder, manifest
from contracts.wanted import BadRequirement, Wanted

FORMAT = 1
"""Number of the record's format; environments of another are made anew."""
RECORD = "environment.json"
REQUIREMENTS = Path(__file__).parent / "requirements"
SHARED = "shared"
JUDGED = ("sglang==", "speculators==", "hs-connectors==")
"""What the overlays are about, so that it is never shared."""
ROUNDS = 6
"""Times that installing a package may bring new requirements."""
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

    def last_used(self) -> float:
        """Time of the last use, in seconds."""
        return (self.folder / RECORD).stat().st_mtime


def root(cache: Path) -> Path:
    """Where environments are kept."""
    return cache / "environments"


def find(wanted: Wanted, cache: Path) -> Environment:
    """The environment of `wanted`, an exact one before an overlay.

    Raises:
        NotProvisioned: there is none.

    """
    for name in (f"{wanted.name}-exact", wanted.name):
        found = Environment.read(root(cache) / name)
        if found is not None:
            with suppress(OSError):
                os.utime(found.folder / RECORD)
            return found
    command = f"contracts provision '{wanted.requirement}'"
    raise NotProvisioned(f"there is no environment of {wanted.requirement}; make it with: {command}")


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
    folder = root(cache) / (f"{wanted.name}-exact" if exact else wanted.name)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        found = None if wanted.release is None else Environment.read(folder)
        if found is not None and (exact or over is None or found.shared == over):
            return found
        shared = None if exact else over or _shared(cache, say)
        with _building(folder) as partial:
            record = _build(wanted, partial, shared, say)
            (partial / RECORD).write_text(json.dumps(record))
        found = Environment.read(folder)
        if found is None:
            raise InstallFailed(f"{wanted.requirement}: {folder} was changed while it was made; try again")
        return found


def _build(wanted: Wanted, folder: Path, shared: str | None, say: Say) -> dict[str, object]:
    """Install `wanted` into a new environment in `folder`; returns its record."""
    python = make_environment(folder, shared or sys.executable)
    own = [str(_site_packages(folder))]
    below = [] if shared is None else _paths(shared)
    say(f"installing {wanted.requirement}" + ("" if shared else " and everything it asks for"))
    if shared is None:
        install(python, [wanted.requirement], wanted.requirement)
    else:
        lines = "".join(f"import site; site.addsitedir({path!r})\n" for path in below)
        (_site_packages(folder) / "shared.pth").write_text(lines)
        install(python, ["--no-deps", wanted.requirement], wanted.requirement)
        for _ in range(ROUNDS):
            needed = missing(wanted.library, own, below)
            if not needed:
                break
            say(f"installing {', '.join(needed)}")
            install(python, ["--no-deps", *needed], f"{wanted.requirement} needs {', '.join(needed)}")
    paths = [*own, *below]
    version = next(iter(metadata.distributions(name=wanted.library, path=own))).version
    differing = {name: pair for name, pair in off_pin(wanted.library, paths).items() if name in RELATED}
    return {
        **_record_of(folder),
        "library": wanted.library,
        "requirement": wanted.requirement,
        "version": version,
        "exact": shared is None,
        "shared": shared,
        "off_pin": differing,
    }


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
        "size": sum(size for size, _ in files.values()),
        "files": files,
    }


def _shared(cache: Path, say: Say) -> str:
    """Interpreter of the shared packages, which are installed if need be."""
    digest = hashlib.sha256()
    for name in ("torch.txt", "cpu.txt"):
        digest.update((REQUIREMENTS / name).read_bytes())
    folder = root(cache) / f"{SHARED}-{digest.hexdigest()[:12]}"
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if Environment.read(folder) is None:
            with _building(folder) as partial:
                say("installing torch, which all releases share")
                python = make_environment(partial, sys.executable)
                install(python, ["-r", str(REQUIREMENTS / "torch.txt")], "torch")
                say("installing what both libraries import")
                lines = (REQUIREMENTS / "cpu.txt").read_text().splitlines()
                common = partial / "shared.txt"
                common.write_text("\n".join(line for line in lines if not line.startswith(JUDGED)))
                install(python, ["--no-deps", "-r", str(common)], "the shared packages")
                (partial / RECORD).write_text(json.dumps(_record_of(partial)))
    return str(folder / "bin" / "python")


@contextmanager
def _building(folder: Path) -> Iterator[Path]:
    """A folder to build in that takes the place of `folder` when it is whole, and goes when it is not."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        yield partial
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except OSError as error:
        raise InstallFailed(f"{folder.name}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def environments(cache: Path) -> Iterator[tuple[Path, Environment | None]]:
    """Every folder that is or was to be an environment, with the environment if it is whole."""
    if not root(cache).is_dir():
        return
    for folder in sorted(root(cache).iterdir()):
        if folder.is_dir():
            yield folder, Environment.read(folder)


def prune(cache: Path, *, everything: bool = False, now: float | None = None) -> list[tuple[Path, int]]:
    """Remove what is damaged, half made or long unused, or everything; returns folders and bytes."""
    now = time.time() if now is None else now
    found = list(environments(cache))
    in_use = {item.shared for _, item in found if item and not _is_old(item, now)}
    removed = []
    for folder, item in found:
        keep = item is not None and (item.python in in_use or not _is_old(item, now))
        if keep and not everything:
            continue
        lock = FileLock(folder.with_name(f"{folder.name.removesuffix('.partial')}.lock"), blocking=False)
        try:
            with lock:
                size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
                shutil.rmtree(folder, ignore_errors=True)
                removed.append((folder, size))
        except TimeoutError:
            continue  # somebody is making it
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


def _is_old(environment: Environment, now: float) -> bool:
    return now - environment.last_used() > UNUSED_KEPT


def _site_packages(folder: Path) -> Path:
    return next((folder / "lib").glob("python3*")) / "site-packages"


def _paths(python: str) -> list[str]:
    """Where an interpreter keeps its packages.

    Raises:
        InstallFailed: it does not run.

    """
    code = (
        "import json, sysconfig; p = sysconfig.get_paths(); print(json.dumps([p['purelib'], p['platlib']]))"
    )
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InstallFailed(f"{python} does not run ({error})") from None
    return list(dict.fromkeys(json.loads(done.stdout)))
