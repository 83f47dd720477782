"""A side: one library in one interpreter. Finds out what is there, runs its probe, keeps what came back.

A probe run is cached under a digest of everything that can change its answer: the library's files, the
related package versions, the probe's own source, and the cases with the files they name.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from contracts.facts import PROTOCOL, CaseResult, SideIdentity, SideName
from contracts.probes.stream import tail
from contracts.records import UnsupportedRelease, check_supported

PROBES = Path(__file__).parent / "probes"
LIBRARIES: Mapping[SideName, str] = {"training": "speculators", "serving": "sglang"}
INSTALL: Mapping[str, str] = {
    "speculators": "pip install speculators",
    "sglang": "pip install sglang",
}

IDENTIFY_TIMEOUT = 60.0
STARTUP_TIMEOUT = 300.0
"""Seconds for a probe to import its library: cold disks are slow."""
CASE_TIMEOUT = 60.0

_IDENTITY = TypeAdapter(SideIdentity)
_RESULT = TypeAdapter(CaseResult)

Progress = Callable[[int, int], None]
"""Called with the number of cases done and the number there are."""


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
                f"`{INSTALL[library]}`, or name an interpreter that has it with --{name}-python"
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
    ) -> SideRun:
        """Run the probe on `cases`, or return what an equal run reported before.

        In a case, `{folder}` stands for the folder of this run; `inputs` are files or folders whose
        contents decide about equality.

        A run in which something failed is kept for `session` only: its other workers share it, the next
        session tries again.

        Raises:
            CacheUnavailable: `cache` cannot be written.

        """
        folder = cache / f"{self.library}-{self.version}-{self._key(cases, inputs)[:16]}"
        make_folder(cache)
        with FileLock(cache / f"{folder.name}.lock"):
            complete, failed = folder / "run.json", folder / f"failed-{session}.json"
            for record in (complete, failed):
                if record.exists():
                    return _load_run(record)
            shutil.rmtree(folder, ignore_errors=True)  # broke off, or failed in another session
            folder.mkdir()
            order = json.loads(json.dumps(list(cases), default=dict).replace("{folder}", str(folder)))
            results, stand_ins = run_probe(self.python, self.library, order, folder, case_timeout, progress)
            record = failed if any(result.error for result in results) else complete
            _save_run(record, results, stand_ins)
            return _load_run(record)

    def _key(self, cases: Sequence[Mapping[str, Any]], inputs: Sequence[Path]) -> str:
        digest = hashlib.sha256(f"{PROTOCOL} {self.identity.fingerprint}\n".encode())
        digest.update(json.dumps(list(cases), sort_keys=True, default=dict).encode())
        shared = [PROBES.parent / "facts.py", PROBES.parent / "checkpoint.py"]
        for path in sorted([*PROBES.rglob("*.py"), *shared]) + [f for root in inputs for f in _files(root)]:
            digest.update(path.read_bytes())
        return digest.hexdigest()


def run_probe(
    python: str,
    library: str,
    cases: Sequence[Mapping[str, Any]],
    folder: Path,
    case_timeout: float = CASE_TIMEOUT,
    progress: Progress | None = None,
    startup_timeout: float = STARTUP_TIMEOUT,
) -> tuple[list[CaseResult], tuple[str, ...]]:
    """Run one probe process over all cases; every case gets a result, an error if need be.

    Args:
        python: the side's interpreter.
        library: whose probe.
        cases: what to observe.
        folder: for the request and the log.
        case_timeout: seconds for one case; the probe ends a case that takes longer.
        progress: called after each case.
        startup_timeout: seconds until the library is imported.

    Returns:
        One result per case, in order, and what was stood in for.

    """
    request, log = folder / "request.json", folder / "probe.log"
    request.write_text(json.dumps({"cases": list(cases), "timeout": case_timeout}))
    receiving, sending = os.pipe()
    command = [python, str(PROBES / "__main__.py"), "run", library, str(request), str(sending)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[sending],
            start_new_session=True,
        )
    os.close(sending)
    conversation = _Conversation(total=len(cases), progress=progress)
    try:
        conversation.listen(receiving, startup_timeout, case_timeout + 10)
    finally:
        _end(process)
        os.close(receiving)
    broken_off = conversation.broken_off(process.returncode)
    text = log.read_text(errors="replace")
    results = [
        conversation.results.get(case["case"])
        or CaseResult(case=case["case"], error=f"{broken_off}\n{tail(text)}".strip())
        for case in cases
    ]
    return results, conversation.stand_ins


@dataclass
class _Conversation:
    """What has been heard from one probe process."""

    total: int
    progress: Progress | None
    results: dict[str, CaseResult] = field(default_factory=dict)
    stand_ins: tuple[str, ...] = ()
    ended: bool = False
    fault: str | None = None

    def listen(self, descriptor: int, startup_timeout: float, line_timeout: float) -> None:
        """Read lines until the probe closes the pipe, says something senseless, or falls silent."""
        buffer, deadline = b"", time.monotonic() + startup_timeout
        while self.fault is None:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.fault = f"the probe fell silent after {len(self.results)} of {self.total} cases"
                return
            chunk = os.read(descriptor, 65536)
            if not chunk:
                return
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                self._hear(line)
                deadline = time.monotonic() + line_timeout

    def _hear(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            kind = message.pop("kind")
            if kind == "hello" and message["protocol"] == PROTOCOL:
                self.stand_ins = tuple(message["stand_ins"])
            elif kind == "case":
                result = _RESULT.validate_python(message, strict=False)
                self.results[result.case] = result
                if self.progress:
                    self.progress(len(self.results), self.total)
            elif kind == "end":
                self.ended = message["cases"] == len(self.results) == self.total
            else:
                self.fault = f"the probe sent a line of another protocol ({kind})"
        except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
            self.fault = f"the probe sent a line that is no message: {line[:80]!r}"

    def broken_off(self, status: int) -> str:
        """Why cases are missing."""
        if self.fault:
            return self.fault
        if status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        else:
            how = f"ended with exit status {status}"
        return f"the probe {how} after {len(self.results)} of {self.total} cases, without its closing line"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait briefly for the probe to leave; then end it with all that it started."""
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def identify(name: SideName, python: str) -> SideIdentity:
    """Ask the interpreter `python` what it has installed, without importing it.

    Raises:
        BadInterpreter: it does not exist, does not run, or does not answer.

    """
    option = f"--{name}-python"
    if shutil.which(python) is None:
        raise BadInterpreter(f"{option}: no such interpreter: {python}")
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


def _save_run(record: Path, results: Sequence[CaseResult], stand_ins: tuple[str, ...]) -> None:
    data = {"stand_ins": stand_ins, "results": [_RESULT.dump_python(item, mode="json") for item in results]}
    partial = record.with_suffix(".partial")
    partial.write_text(json.dumps(data))
    partial.rename(record)


def _load_run(record: Path) -> SideRun:
    data = json.loads(record.read_text())
    results = [_RESULT.validate_python(item) for item in data["results"]]
    return SideRun(
        results={result.case: result for result in results},
        stand_ins=tuple(data["stand_ins"]),
        folder=record.parent,
    )


def _files(root: Path) -> list[Path]:
    """Every file of an input; an input that a failed probe never wrote has none."""
    if root.is_dir():
        return sorted(path for path in root.rglob("*") if path.is_file())
    return [root] if root.exists() else []
