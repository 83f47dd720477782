"""Commands that run beside each other, with an estimate of how long they will take."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from contracts.terminal import new_console, text

LIMIT = 3600.0
"""Seconds after which a command is ended."""
GRACE = 30.0
"""Seconds that it may take to end what it started itself."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command to run."""

    title: str
    command: Sequence[str]
    weight: float
    """Seconds that it takes by experience; what matters is how it compares with others."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """What became of a command."""

    status: int
    """Exit status; negative if a signal ended it."""
    told: str
    """The line that says what went wrong, or else the last one."""
    seconds: float


class Steps:
    """Runs steps on some workers, and says how far they have come."""

    def __init__(self, workers: int, environment: Mapping[str, str]) -> None:
        """Start with nothing to do.

        Args:
            workers: commands at a time, at the most.
            environment: variables that commands have beside those of this process.

        """
        self._executor = ThreadPoolExecutor(workers)
        self._environment = {**os.environ, **environment}
        self._futures: list[Future[None]] = []
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._started = time.monotonic()
        self._due = self._finished = 0.0
        self._console = new_console(stderr=True)

    def expect(self, weight: float) -> None:
        """Count on work that will be started later."""
        self._due += weight

    def start(self, step: Step, then: Callable[[Done], None] = lambda _: None) -> None:
        """Run a step when a worker is free, and tell `then` what became of it."""

        def run() -> None:
            if self._stop.is_set():
                return
            done = self._run(step)
            if self._stop.is_set():
                return
            then(done)
            with self._lock:
                self._finished += step.weight
                self._say(step, done)

        self._futures.append(self._executor.submit(run))

    def _run(self, step: Step) -> Done:
        started = time.monotonic()
        with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as folder:
            with self._lock:
                if self._stop.is_set():
                    return Done(status=-signal.SIGINT, told="", seconds=0.0)
                process = subprocess.Popen(
                    step.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    env=self._environment,
                    start_new_session=True,  # Ctrl-C reaches it through `stop` alone, and once
                )
                self._running.add(process)
            try:
                status = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                status = _interrupt(process)
            finally:
                self._running.discard(process)
            log.seek(0)
            lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if line.lower().startswith("error")]
        told = (errors or lines or [""])[-1].strip()
        return Done(status=status, told=told, seconds=time.monotonic() - started)

    def _say(self, step: Step, done: Done) -> None:
        elapsed = time.monotonic() - self._started
        left = (self._due - self._finished) * elapsed / self._finished
        about = f", about {duration(left)} left" if self._due - self._finished > 0.5 else ""
        told = f"{self._finished / self._due:>4.0%}  {step.title} ({duration(done.seconds)}){about}"
        self._console.print(text(told))

    def wait(self) -> None:
        """Wait until all is done, and what was started meanwhile as well."""
        while self._futures:
            self._futures.pop(0).result()

    def stop(self) -> None:
        """Start nothing more; end what runs, as Ctrl-C would."""
        with self._lock:
            self._stop.set()
        for process in tuple(self._running):
            _interrupt(process)
        self._executor.shutdown(cancel_futures=True)


def _interrupt(process: subprocess.Popen[bytes]) -> int:
    """End a command so that it can end its own probes; returns its exit status."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        return process.wait(GRACE)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


def duration(seconds: float) -> str:
    """Seconds, or minutes where there are many."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
