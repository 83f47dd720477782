"""A side: one library in one interpreter. Finds out what is there, and what its probe says about cases."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from contracts import kept
from contracts.conversation import PROBES, Progress, run_probe
from contracts.facts import CASE_TIMEOUT, LIBRARIES, PROTOCOL, CaseResult, Device, SideIdentity, SideName
from contracts.kept import Case, Kept
from contracts.records import UnsupportedRelease, check_supported

IDENTIFY_TIMEOUT = 60.0
SHARED_CODE = ("facts.py", "checkpoint.py", "places.py", "speculation.py", "spellings.py", "blank.py",
               "targets/draft.py")  # fmt: skip
"""Modules beside the probes' own that a probe runs."""
JOBS = min(4, os.cpu_count() or 1)
"""Cases that a probe observes at a time; each runs on one core."""
SETTINGS = ("SGLANG_", "HF_", "TORCH")
"""Beginnings of the variables by which a library can be told to answer otherwise."""

_IDENTITY = TypeAdapter(SideIdentity)


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
    folders: Mapping[str, Path]
    """Where the probe wrote the files of each case."""
    stand_ins: tuple[str, ...]

    @classmethod
    def of(cls, answers: Iterable[Kept]) -> SideRun:
        """Answers by the names of their cases."""
        found = {answer.result.case: answer for answer in answers}
        return cls(
            results={name: answer.result for name, answer in found.items()},
            folders={name: answer.folder for name, answer in found.items()},
            stand_ins=tuple(dict.fromkeys(item for answer in found.values() for item in answer.stand_ins)),
        )

    def __or__(self, other: SideRun) -> SideRun:
        """Both together."""
        return SideRun(
            results={**self.results, **other.results},
            folders={**self.folders, **other.folders},
            stand_ins=tuple(dict.fromkeys([*self.stand_ins, *other.stand_ins])),
        )


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
        cases: Sequence[Case],
        cache: Path,
        *,
        session: str = "",
        case_timeout: float = CASE_TIMEOUT,
        progress: Progress | None = None,
        device: Device = "cpu",
    ) -> SideRun:
        """Run the probe on those of `cases` that it has not answered before; the library runs on `device`.

        A case that failed is kept for `session` only: its other workers share it, the next session tries
        again. Cases with the same name but other contents are all answered; the last stands in what is
        returned.

        Raises:
            CacheUnavailable: `cache` cannot be written.

        """
        make_folder(cache)
        contents, salt = kept.Contents(), self._salt(device)
        asked = {kept.key(case, salt, contents): case for case in cases}
        session = session or kept.OWN_SESSION
        lock = _digest([case["case"] for case in cases] + [device])
        with FileLock(cache / f"{self.library}-{self.version}-{lock}.lock"):
            answers = {key: self._find(cache, key, case, session) for key, case in asked.items()}
            missing = {key: asked[key] for key, answer in answers.items() if answer is None}
            if missing:
                kept.sweep(cache)
                self._ask(missing, cache, session, case_timeout, progress, device)
                answers |= {key: self._find(cache, key, case, session) for key, case in missing.items()}
        return SideRun.of(answer for answer in answers.values() if answer)

    def serve(
        self,
        case: Case,
        cache: Path,
        answer: Callable[[Case, Path], CaseResult],
        *,
        session: str = "",
        device: Device = "cpu",
    ) -> Kept:
        """One case that a server of this side's answers in place of the probe; kept as a probe's is.

        Args:
            case: what is asked.
            cache: where answers are kept.
            answer: asks a server; it is given the case with its folder filled in, and that folder.
            session: as of `run`.
            device: the server runs on it.

        Raises:
            CacheUnavailable: `cache` cannot be written.

        """
        make_folder(cache)
        session = session or kept.OWN_SESSION
        key = kept.key(case, self._salt(device), kept.Contents())
        with FileLock(cache / f"{self.library}-{self.version}-{key}.lock"):
            found = self._find(cache, key, case, session)
            if found is not None:
                return found
            folder = kept.in_progress(self._place(cache, key))
            try:
                result = answer(kept.request(case, folder), folder)
                kept.save(folder, case, result, ())
                place = self._place(cache, key)
                place = kept.unsettled(place, session) if result.error else place
                kept.settle(folder, place, lambda other: kept.load(other, case) is not None)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            found = self._find(cache, key, case, session)
            assert found is not None
            return found

    def _find(self, cache: Path, key: str, case: Case, session: str) -> Kept | None:
        place = self._place(cache, key)
        return kept.load(place, case) or kept.load(kept.unsettled(place, session), case)

    def _ask(
        self,
        cases: Mapping[str, Case],
        cache: Path,
        session: str,
        case_timeout: float,
        progress: Progress | None,
        device: Device,
    ) -> None:
        """Let the probe answer `cases`, and keep each answer as it comes."""
        order, waiting = [], {}
        for key, name, case in kept.distinct(cases):
            folder = kept.in_progress(self._place(cache, key))
            order.append(kept.request(case, folder) | {"case": name})
            waiting[name] = (key, case, folder)

        def heard(result: CaseResult, stand_ins: tuple[str, ...]) -> None:
            key, case, folder = waiting[result.case]
            kept.save(folder, case, replace(result, case=case["case"]), stand_ins)
            place = self._place(cache, key)
            if result.error:
                place = kept.unsettled(place, session)
            kept.settle(folder, place, lambda other: kept.load(other, case) is not None)

        prefix = f"{self._place(cache, '0' * 16).name}."  # swept, should nobody be left to remove it
        try:
            with tempfile.TemporaryDirectory(prefix=prefix, dir=cache) as talk:
                run_probe(
                    self.python,
                    self.library,
                    order,
                    Path(talk),
                    case_timeout,
                    progress,
                    device=device,
                    jobs=JOBS if device == "cpu" else 1,
                    heard=heard,
                )
        finally:
            for _, _, folder in waiting.values():  # those that nobody answered for
                shutil.rmtree(folder, ignore_errors=True)

    def _place(self, cache: Path, key: str) -> Path:
        return cache / f"{self.library}-{self.version}-{key}"

    def _salt(self, device: Device) -> str:
        """All that can change an answer beside the case itself."""
        settings = sorted(item for item in os.environ.items() if item[0].startswith(SETTINGS))
        shared = [PROBES.parent / name for name in SHARED_CODE]
        others = tuple(library for library in LIBRARIES.values() if library != self.library)
        own = [path for path in PROBES.rglob("*.py") if not path.name.startswith(others)]
        code = hashlib.sha256(b"".join(path.read_bytes() for path in sorted([*own, *shared])))
        on = device if device == "cpu" else (device, *gpus())
        return repr((PROTOCOL, self.identity.fingerprint, on, settings, code.hexdigest()))


def gpus() -> tuple[str, ...]:
    """What the driver says of this machine's GPUs: models, and its own version; nothing without one."""
    root = Path("/proc/driver/nvidia")
    files = [root / "version", *sorted(root.glob("gpus/*/information"))]
    said = [line for file in files if file.exists() for line in file.read_text().splitlines()]
    return tuple(line for line in said if line.startswith(("NVRM", "Model")))


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


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
