"""One conversation with a probe process: start it, hear it out, and say of every case what became of it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from contracts.facts import CASE_TIMEOUT, PROTOCOL, CaseResult, Device
from contracts.probes.stream import tail

PROBES = Path(__file__).parent / "probes"

STARTUP_TIMEOUT = 300.0
"""Seconds for a probe to import its library: cold disks are slow."""
GPU_TIMEOUT = 900.0
"""Seconds for a case on a GPU, at the least: each imports the library, and may compile kernels."""
RESTARTS = 3
GRACE = 10.0
"""Seconds on top of a case's own limit before the probe counts as silent."""

_RESULT = TypeAdapter(CaseResult)

Heard = Callable[[CaseResult, tuple[str, ...]], None]
"""Told of each case as soon as its result is certain, and what is stood in for."""
Progress = Callable[[int, int], None]
"""Called with the number of cases done and the number there are; with 0 when a probe is started."""


def run_probe(
    python: str,
    library: str,
    cases: Sequence[Mapping[str, Any]],
    folder: Path,
    case_timeout: float = CASE_TIMEOUT,
    progress: Progress | None = None,
    startup_timeout: float = STARTUP_TIMEOUT,
    device: Device = "cpu",
    jobs: int = 1,
    heard: Heard = lambda _result, _stand_ins: None,
) -> tuple[list[CaseResult], tuple[str, ...]]:
    """Run one probe process over all cases; every case gets a result, an error if need be.

    Args:
        python: the side's interpreter.
        library: whose probe.
        cases: what to observe.
        folder: for the request and the log.
        case_timeout: seconds for one case that has no `timeout` of its own; the probe ends a case that takes
            longer.
        progress: called after each case.
        startup_timeout: seconds until the library is imported.
        device: what the library is to run on.
        jobs: cases that are observed at a time.
        heard: told of each result once.

    Returns:
        One result per case, in order, and what was stood in for.

    A process that dies or falls silent costs the case that it was at, or the first of several; the cases
    after that one are given to a new process, unless RESTARTS of them in a row got nowhere. One that never
    says hello costs them all.

    """
    results: dict[str, CaseResult] = {}
    stand_ins: tuple[str, ...] = ()
    if progress:
        progress(0, len(cases))
    waiting, in_vain = list(cases), 0
    while waiting:
        asked = frozenset(case["case"] for case in waiting)
        talk = _Conversation(
            total=len(cases), asked=asked, before=len(results), progress=progress, heard=heard
        )
        log = folder / f"probe-{len(results)}.log"
        longest = max(case.get("timeout", case_timeout) for case in waiting)
        order = {"cases": list(waiting), "timeout": case_timeout, "device": device, "jobs": jobs}
        status = _talk(python, library, order, log, talk, longest, startup_timeout)
        results |= talk.results
        stand_ins = talk.stand_ins or stand_ins
        if talk.ended:
            talk.pass_on()
            break
        in_vain = 0 if len(talk.results) > 1 else in_vain + 1
        error = f"{talk.why(status)}\n{tail(log.read_text(errors='replace'))}".strip()
        left = [case for case in waiting if case["case"] not in talk.results]
        # Without its closing line nobody knows whether the last case was all that there was to say.
        lost = left[:1] or waiting[-1:]
        if not talk.greeted or in_vain > RESTARTS:
            lost = left or lost
        if talk.uncertain and all(case["case"] != talk.uncertain.case for case in lost):
            talk.pass_on()
        for case in lost:
            results[case["case"]] = CaseResult(case=case["case"], error=error)
            heard(results[case["case"]], stand_ins)
        waiting = [case for case in left if case not in lost]
    return [results[case["case"]] for case in cases], stand_ins


def _talk(
    python: str,
    library: str,
    order: Mapping[str, Any],
    log: Path,
    talk: _Conversation,
    longest: float,
    startup_timeout: float,
) -> int:
    """Hold one conversation with a new probe process; returns its exit status.

    No case of the order takes longer than `longest`, in seconds.
    """
    request = log.with_suffix(".json")
    request.write_text(json.dumps(order))
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
    try:
        talk.listen(receiving, startup_timeout, longest + GRACE)
    finally:
        _end(process)
        os.close(receiving)
    return process.returncode


@dataclass
class _Conversation:
    """What has been heard from one probe process."""

    total: int
    asked: frozenset[str]
    """The cases that this process was given."""
    before: int
    """Cases that earlier processes have answered for."""
    progress: Progress | None
    heard: Heard
    results: dict[str, CaseResult] = field(default_factory=dict)
    stand_ins: tuple[str, ...] = ()
    greeted: bool = False
    ended: bool = False
    fault: str | None = None
    uncertain: CaseResult | None = None
    """The last result, which counts once anything follows it."""

    def pass_on(self) -> None:
        """Tell of the last result: it is certain now."""
        if self.uncertain is not None:
            self.heard(self.uncertain, self.stand_ins)
            self.uncertain = None

    def listen(self, descriptor: int, startup_timeout: float, line_timeout: float) -> None:
        """Read lines until the probe closes the pipe, ends, says something senseless, or falls silent."""
        buffer, deadline = b"", time.monotonic() + startup_timeout
        while self.fault is None and not self.ended:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.fault = f"the probe fell silent {self._when()}"
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
                self.greeted, self.stand_ins = True, tuple(message["stand_ins"])
            elif kind == "case" and self.greeted:
                result = _RESULT.validate_python(message, strict=False)
                if result.case not in self.asked or result.case in self.results:
                    self.fault = f"the probe answered for {result.case!r}, which was not its turn"
                    return
                self.pass_on()
                self.results[result.case] = self.uncertain = result
                if self.progress:
                    self.progress(self.before + len(self.results), self.total)
            elif kind == "unable":
                self.fault = message["reason"]
            elif kind == "end" and self.greeted:
                self.ended = message["cases"] == len(self.results) == len(self.asked)
                if not self.ended:
                    self.fault = f"the probe ended after {len(self.results)} of {len(self.asked)} cases"
            else:
                self.fault = f"the probe sent a line of another protocol ({kind})"
        except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
            self.fault = f"the probe sent a line that is no message: {line[:80]!r}"

    def why(self, status: int) -> str:
        """Why there is no closing line."""
        if self.fault:
            return self.fault
        how = (
            f"was killed by {signal.Signals(-status).name}"
            if status < 0
            else f"ended with exit status {status}"
        )
        return f"the probe {how} {self._when()}, without its closing line"

    def _when(self) -> str:
        return f"after {self.before + len(self.results)} of {self.total} cases"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait briefly for the probe to leave; then end it and all that it started."""
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
    finally:  # an interrupt does not wait
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
