"""Runs the cases of a request, each in a fork, and streams their results as JSON lines.

One process imports the library once; a fork per case keeps global state of one case out of the next. Not on
a GPU: CUDA does not survive a fork, and importing the library begins to use it. There each fork imports.
A case that crashes, raises or outlives its time limit becomes an error of that case alone. The last
line says how many cases were reported; a runner that does not see it knows that the probe broke off.
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import gc
import json
import os
import random
import re
import select
import signal
import sys
import sysconfig
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from contracts.facts import PROTOCOL, CaseResult, Device, DraftFacts, Refusal, to_json

LOG_LINES = 15
"""How much of a case's log goes with its error."""
LOG_LINE_WIDTH = 300
"""sglang prints its whole configuration on one line; nobody reads that in an error."""


class Probe(Protocol):
    """What a probe module offers."""

    def setup(self, device: Device) -> tuple[str, ...]:
        """Import the library; returns what is stood in for.

        Raises:
            OutOfReach: the machine cannot run it on this device.

        """

    def observe(self, case: dict[str, Any], refusals: Refusals) -> DraftFacts:
        """Facts about one case."""


class Refusals:
    """Collects what the library itself refuses, so that a later stage can still be observed."""

    def __init__(self) -> None:
        self.items: list[Refusal] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Record an exception that the library raises; one raised by the probe itself is passed on."""
        try:
            yield
        except Exception as error:
            if _raised_by_probe(error):
                raise
            self.note(name, error)
        except SystemExit as error:
            self.note(name, error)

    def note(self, stage: str, error: BaseException) -> None:
        """Record what the library raised."""
        message = " ".join(str(error).split())[:1000]
        self.items.append(Refusal(stage=stage, error=type(error).__name__, message=message))


class OutOfReach(Exception):
    """The library asked for something that this probe cannot give; that says nothing about the interface."""


WATCHERS = {("dataflow.py", "__torch_dispatch__"), ("recording.py", None)}
"""Functions of ours that the library's own calls pass through (file, function; None is all of them)."""

_PROBES = Path(__file__).parent
_PYTHON = Path(sysconfig.get_paths()["stdlib"])
_OURS = (OutOfReach, ImportError, MemoryError, RecursionError)
"""Never a verdict of the library, wherever they are raised."""


NOT_HERE = re.compile(
    r"meta tensors?\b|register_meta|Could not run '|NVIDIA driver|CUDA (error|driver|out of memory)|CUDA GPUs"
    r"|allocate memory|Not enough memory|active driver|requires CUDA support|\bgloo[:/]|\[Gloo\]|EADDRINUSE"
    r"|[Aa]ddress already in use"
)
"""What torch and its kin say about what this machine or this device cannot do, as RuntimeError or OSError."""
ONLY_HERE = re.compile(
    "^Not implemented$|requires AMX support|"
    "'ReferenceBackend' object|'dict' object has no attribute 'model_type'"
)
"""What the library's path for a CPU says of what it lacks, a stand-in of what it does not know, and sglang
0.5.18 to 0.5.22 of the config that transformers 5.12 writes for MiniMax-M3."""
_CODE_OF_A_CHECKPOINT = "dynamic_module_utils.py"
"""Module of transformers that fetches the code of a checkpoint, and refuses what it would import."""
_NOT_COMPILED = "Torch not compiled with CUDA"
"""Likewise, as AssertionError."""


def _raised_by_probe(error: BaseException) -> bool:
    """Whether the probe or the machine failed, not the library.

    That is so if the innermost frame that is not torch's, Python's own or a watcher's is ours (a renamed
    attribute, a changed signature), if a GPU kernel was to be compiled, if a value was asked of a tensor that
    has none, or if the machine ran out of something.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_watcher(frame)]
    if Path(frames[-1].filename).name == _CODE_OF_A_CHECKPOINT:
        return False  # the library asks for what a checkpoint's own code would import
    if isinstance(error, _OURS) or _NOT_COMPILED in str(error):
        return True
    if isinstance(error, (RuntimeError, OSError)) and NOT_HERE.search(str(error)):
        return True
    if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT):
        return True  # without a number it is a library's own message, not the system's
    if "triton" in Path(frames[-1].filename).parts:
        return True
    culprits = [frame for frame in frames if not _is_of_everybody(Path(frame.filename))]
    return _PROBES in Path((culprits or frames)[-1].filename).parents


def _is_of_everybody(file: Path) -> bool:
    """Whether a file is of torch or of Python itself, which raise on behalf of their callers."""
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    if torch and Path(torch).parent in file.parents:
        return True
    return _PYTHON in file.parents and "site-packages" not in file.parts


def _is_watcher(frame: traceback.FrameSummary) -> bool:
    file = Path(frame.filename)
    return file.parent == _PROBES and bool({(file.name, frame.name), (file.name, None)} & WATCHERS)


def serve(probe: Probe, request: Path, descriptor: int) -> None:
    """Answer `request` (a JSON file of cases and a time limit) on the pipe `descriptor`."""
    order = json.loads(request.read_text())
    with os.fdopen(descriptor, "w", buffering=1) as out:
        device: Device = order["device"]
        try:
            stand_ins = probe.setup(device) if device == "cpu" else ()
        except OutOfReach as error:
            _send(out, {"kind": "unable", "reason": str(error)})
            return
        gc.freeze()  # what is imported stays; no child needs to look through it for garbage
        _send(out, {"kind": "hello", "protocol": PROTOCOL, "stand_ins": stand_ins})
        observing = probe if device == "cpu" else _EachByItself(probe, device)
        for result in _answers(observing, order["cases"], order["timeout"], order.get("jobs", 1)):
            _send(out, {"kind": "case", **to_json(result)})
        _send(out, {"kind": "end", "cases": len(order["cases"])})


class _EachByItself:
    """A probe that imports its library anew for each case."""

    def __init__(self, probe: Probe, device: Device) -> None:
        self._probe, self._device = probe, device

    def setup(self, device: Device) -> tuple[str, ...]:
        """Nothing before the forks."""
        return ()

    def observe(self, case: dict[str, Any], refusals: Refusals) -> DraftFacts:
        """Import, then observe."""
        self._probe.setup(self._device)
        return self._probe.observe(case, refusals)


def _send(out: Any, message: dict[str, Any]) -> None:
    out.write(json.dumps(message) + "\n")


def _answers(
    probe: Probe, cases: Sequence[dict[str, Any]], timeout: float, jobs: int
) -> Iterator[CaseResult]:
    """What became of each case, as they end; up to `jobs` of them run at a time."""
    waiting, running = list(reversed(cases)), dict[int, _Fork]()
    try:
        yield from _as_they_end(probe, waiting, running, timeout, jobs)
    finally:
        for fork in running.values():  # of whom nobody will hear
            fork.end()


def _as_they_end(
    probe: Probe, waiting: list[dict[str, Any]], running: dict[int, _Fork], timeout: float, jobs: int
) -> Iterator[CaseResult]:
    while waiting or running:
        while waiting and len(running) < jobs:
            fork = _Fork(probe, waiting.pop(), timeout)
            running[fork.receiving] = fork
        soonest = min(fork.deadline for fork in running.values())
        ready, _, _ = select.select(list(running), [], [], max(0.0, soonest - time.monotonic()))
        for descriptor, fork in list(running.items()):
            if descriptor in ready:
                fork.read()
            if fork.whole or time.monotonic() >= fork.deadline:
                del running[descriptor]
                yield fork.end()


class _Fork:
    """One case that is observed in a child process, with a temporary folder that goes when it ends."""

    def __init__(self, probe: Probe, case: dict[str, Any], timeout: float) -> None:
        self._case, self._timeout = case, case.get("timeout", timeout)
        self._started = time.monotonic()
        self.deadline = self._started + self._timeout
        self._scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the case ends)
        self._answer = b""
        self.whole = False
        """Whether all has been read that there is to read."""
        self.receiving, sending = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._child = os.fork()
        if self._child == 0:
            os.close(self.receiving)
            os.setpgid(0, 0)
            _use_for_temporary_files(self._scratch.name)
            _child(probe, case, sending, self._log.fileno())
        os.close(sending)
        with suppress(OSError):
            os.setpgid(self._child, self._child)  # parent and child both, whoever comes first

    def read(self) -> None:
        """Take in what the child has written; it ends with a whole line, or with nothing."""
        chunk = os.read(self.receiving, 65536)
        self._answer += chunk
        if not chunk:
            self._answer = b""  # ended without a whole line
        self.whole = not chunk or chunk.endswith(b"\n")

    def end(self) -> CaseResult:
        """End the child, and say what became of the case."""
        os.close(self.receiving)
        if not self.whole:
            self._kill()
        _, status = os.waitpid(self._child, 0)
        self._kill()  # whatever the case left running
        self._log.seek(0)
        text = self._log.read().decode(errors="replace")
        self._log.close()
        self._scratch.cleanup()
        sys.stdout.write(text)
        name, seconds = self._case["case"], round(time.monotonic() - self._started, 3)
        failure = None
        if not self.whole:
            failure = f"no answer within {self._timeout:g} s"
        elif os.WIFSIGNALED(status):
            failure = f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
        elif not self._answer:
            failure = f"ended with exit status {os.WEXITSTATUS(status)} and no answer"
        if failure:
            return CaseResult(case=name, error=f"{failure}\n{tail(text)}".strip(), seconds=seconds)
        return CaseResult(case=name, seconds=seconds, **json.loads(self._answer))

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._child, signal.SIGKILL)


def _use_for_temporary_files(folder: str) -> None:
    """A library may leave sockets and the like behind; sglang's scheduler does."""
    os.environ["TMPDIR"] = tempfile.tempdir = folder


def _child(probe: Probe, case: dict[str, Any], sending: int, log: int) -> None:
    """Observe, answer, and leave without running any exit handler of the library."""
    die_with_parent()
    random.seed()  # forks are alike, and would choose the same ports
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable(file=log)  # a crash in compiled code leaves a Python traceback in the log
    refusals = Refusals()
    answer: dict[str, Any]
    try:
        facts = probe.observe(case, refusals)
        answer = {"facts": to_json(facts), "refusals": [to_json(item) for item in refusals.items]}
    except BaseException as error:
        traceback.print_exc()
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        answer = {"error": f"{type(error).__name__} in {where}: {' '.join(str(error).split())[:500]}"}
    with os.fdopen(sending, "w") as out:
        out.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the kernel to end this process when its parent ends, however that ends (Linux; else no harm)."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG


def tail(log: str) -> str:
    """The last lines of a log, each cut to a readable width."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    return "\n".join(line[:LOG_LINE_WIDTH] for line in lines[-LOG_LINES:])
