"""A side: one library in one interpreter. Finds out what is there, runs its probe, keeps what came back.

A probe run is cached under a digest of everything that can change its answer: the library's files, the
related package versions, the probe's own source, and the cases with the files they name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from contracts.conversation import PROBES, RESULT, Progress, run_probe
from contracts.facts import CASE_TIMEOUT, LIBRARIES, PROTOCOL, CaseResult, Device, SideIdentity, SideName
from contracts.records import UnsupportedRelease, check_supported

IDENTIFY_TIMEOUT = 60.0
FAILED_KEPT = 24 * 3600.0
UNUSED_KEPT = 30 * 24 * 3600.0
RECORD = "run.json"

_IDENTITY = TypeAdapter(SideIdentity)
_OURS = re.compile(r"(speculators|sglang)-.+-[0-9a-f]{16}(?P<session>\.\w+)?")
"""Name of a folder that a run was kept in; with a session, a run that failed."""


class SideUnavailable(Exception):
    """This side cannot be judged here: what is missing, and how to get it. One line."""


class BadInterpreter(Exception):
    """The interpreter given for a side does not exist or does not run. One line."""


class CacheUnavailable(Exception):
    """The cache folder cannot be written. One line."""


@dataclass(frozen=True, kw_only=True)
class SideRun:
    """What a probe reported about a list of cases."""

    results: Mapping[str, CaseResult]
    stand_ins: tuple[str, ...]
    folder: Path
    """Where the probe wrote its files."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One library in one interpreter."""

    name: SideName
    python: str
    identity: SideIdentity

    @property
    def library(self) -> str:
        """The library's distribution name."""
        return LIBRARIES[self.name]

    @property
    def version(self) -> str:
        """The library's release."""
        assert self.identity.version is not None
        return self.identity.version

    @classmethod
    def find(cls, name: SideName, python: str) -> Side:
        """Identify the library of side `name` in the interpreter `python`.

        Raises:
            BadInterpreter: `python` is not an interpreter.
            SideUnavailable: the library is not installed there, or its release cannot be judged.

        """
        library = LIBRARIES[name]
        identity = identify(name, python)
        if identity.version is None:
            raise SideUnavailable(
                f"{name} side: {library} is not installed in {python}; install it with "
                f"`pip install {library}`, or name an interpreter that has it with --{name}-python"
            )
        try:
            check_supported(library, identity.version)
        except UnsupportedRelease as error:
            raise SideUnavailable(f"{name} side: {error}") from None
        return cls(name=name, python=python, identity=identity)

    def run(
        self,
        cases: Sequence[Mapping[str, Any]],
        cache: Path,
        *,
        inputs: Sequence[Path] = (),
        session: str = "",
        case_timeout: float = CASE_TIMEOUT,
        progress: Progress | None = None,
        device: Device = "cpu",
    ) -> SideRun:
        """Run the probe on `cases`, or return what an equal run reported before.

        In a case, `{folder}` stands for the folder of this run; `inputs` are files or folders whose
        contents decide about equality. The library runs on `device`.

        A run in which something failed is kept for `session` only: its other workers share it, the next
        session tries again.

        Raises:
            CacheUnavailable: `cache` cannot be written.

        """
        name = f"{self.library}-{self.version}-{self._key(cases, inputs, device)[:16]}"
        make_folder(cache)
        with FileLock(cache / f"{name}.lock"):
            complete, own = cache / name, cache / f"{name}.{session or os.getpid()}"
            for folder in (complete, own):
                if (known := _load_run(folder)) is not None:
                    os.utime(folder)
                    return known
            sweep(cache)
            shutil.rmtree(own, ignore_errors=True)
            own.mkdir()
            order = [_in_folder(case, own) for case in cases]
            results, stand_ins = run_probe(
                self.python, self.library, order, own, case_timeout, progress, device=device
            )
            _save_run(own, results, stand_ins)
            kept = own
            if not any(result.error for result in results):
                shutil.rmtree(complete, ignore_errors=True)
                kept = own.rename(complete)
            return SideRun(
                results={result.case: result for result in results}, stand_ins=stand_ins, folder=kept
            )

    def _key(self, cases: Sequence[Mapping[str, Any]], inputs: Sequence[Path], device: Device) -> str:
        settings = sorted(
            item for item in os.environ.items() if item[0].startswith(("SGLANG_", "HF_", "TORCH"))
        )
        digest = hashlib.sha256(repr((PROTOCOL, self.identity.fingerprint, device, settings)).encode())
        digest.update(json.dumps(list(cases), sort_keys=True, default=dict).encode())
        shared = [PROBES.parent / name for name in ("facts.py", "checkpoint.py", "speculation.py")]
        others = tuple(library for library in LIBRARIES.values() if library != self.library)
        own = [path for path in PROBES.rglob("*.py") if not path.name.startswith(others)]
        for path in sorted([*own, *shared]) + [file for root in inputs for file in _files(root)]:
            digest.update(path.read_bytes())
        return digest.hexdigest()


def identify(name: SideName, python: str) -> SideIdentity:
    """Ask the interpreter `python` what it has installed, without importing it.

    Raises:
        BadInterpreter: it does not exist, does not run, or does not answer.

    """
    variable = f"CONTRACTS_{name.upper()}_PYTHON"
    option = variable if os.environ.get(variable) == python else f"--{name}-python"
    if shutil.which(python) is None:
        why = "not a program that can be run" if Path(python).exists() else "no such interpreter"
        raise BadInterpreter(f"{option}: {why}: {python}")
    command = [python, str(PROBES / "__main__.py"), "identify", LIBRARIES[name]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=IDENTIFY_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInterpreter(f"{option}: {python} does not run ({error})") from None
    try:
        return _IDENTITY.validate_json(done.stdout)
    except ValidationError:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise BadInterpreter(f"{option}: {python} is no Python >= 3.11 ({last})") from None


def make_folder(folder: Path) -> None:
    """Make a folder to write to.

    Raises:
        CacheUnavailable: it cannot be made or written.

    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise CacheUnavailable(
            f"cache folder {folder} cannot be written ({error.strerror}); name another with "
            "--contracts-cache or CONTRACTS_CACHE"
        ) from None


def sweep(cache: Path, *, now: float | None = None) -> None:
    """Remove what nobody will read any more: failed runs of old sessions, and runs long unused."""
    now = time.time() if now is None else now
    for folder in cache.iterdir():
        match = _OURS.fullmatch(folder.name)
        if match is None:
            continue  # the cache may be a folder that other things live in
        with suppress(FileNotFoundError):
            if now - folder.stat().st_mtime > (FAILED_KEPT if match["session"] else UNUSED_KEPT):
                shutil.rmtree(folder, ignore_errors=True)


def _save_run(folder: Path, results: Sequence[CaseResult], stand_ins: tuple[str, ...]) -> None:
    data = {
        "stand_ins": stand_ins,
        "files": manifest(folder),
        "results": [RESULT.dump_python(item, mode="json") for item in results],
    }
    partial = folder / f"{RECORD}.partial"
    partial.write_text(json.dumps(data))
    partial.rename(folder / RECORD)


def _load_run(folder: Path) -> SideRun | None:
    """The run that `folder` holds; None if there is none, or if it was damaged since."""
    try:
        data = json.loads((folder / RECORD).read_text())
        results = [RESULT.validate_python(item) for item in data["results"]]
        if not is_intact(folder, data["files"]):
            return None
        return SideRun(
            results={result.case: result for result in results},
            stand_ins=tuple(data["stand_ins"]),
            folder=folder,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def manifest(folder: Path) -> dict[str, list[int]]:
    """Size and time of change of every file in a folder, by its path below it."""
    return {str(file.relative_to(folder)): _stamp(file) for file in _files(folder)}


def is_intact(folder: Path, recorded: Mapping[str, list[int]]) -> bool:
    """Whether every file of a manifest is still there, whole and untouched.

    Nothing else is looked at: another process may be writing exports beside them.
    """
    try:
        return all(_stamp(folder / name) == stamp for name, stamp in recorded.items())
    except OSError:
        return False


def _stamp(file: Path) -> list[int]:
    status = file.lstat()  # of a link itself: an environment links to an interpreter that may be updated
    return [status.st_size, status.st_mtime_ns]


def _in_folder(value: Any, folder: Path) -> Any:
    """A case with the folder of its run filled in."""
    if isinstance(value, str):
        return value.replace("{folder}", str(folder))
    if isinstance(value, Mapping):
        return {key: _in_folder(item, folder) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_folder(item, folder) for item in value]
    return value


def _files(root: Path) -> list[Path]:
    """Every file of an input; an input that a failed probe never wrote has none."""
    if root.is_dir():
        return sorted(path for path in root.rglob("*") if path.is_file())
    return [root] if root.exists() else []
