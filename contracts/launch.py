"""A server in a process of its own: started, waited for with a limit, and ended with all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx

from contracts.probes.stream import die_with_parent, tail

READY_TIMEOUT = 300.0
"""Seconds from its start until a server answers: importing the library, loading, compiling kernels."""
STOP_TIMEOUT = 60.0
"""Seconds that it may take to leave when it is asked to; sglang looks for open requests every five."""
LAST_TIMEOUT = 10.0
"""Seconds that the processes that it started may take to go after it."""
SHARED_MEMORY = "/dev/shm/"

Told = Callable[[str], None]
"""Called every few seconds while something is waited for, with what that is."""


class LaunchFailed(Exception):
    """A server that never answered: what happened, and the end of its log. The first line says it all."""


@dataclass(kw_only=True)
class Launched:
    """A server that answers, and after its end what it left."""

    url: str
    process: subprocess.Popen[bytes]
    seconds: float
    """From its start until it answered."""
    left: tuple[str, ...] = field(default=())
    """What outlived it: processes, and whoever still listens on its port; known after its end."""


@contextmanager
def launched(
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    ready_timeout: float = READY_TIMEOUT,
    stop_timeout: float = STOP_TIMEOUT,
    told: Told = lambda _: None,
) -> Iterator[Launched]:
    """Start `command --host 127.0.0.1 --port PORT`, wait until it answers, and end it.

    Args:
        command: the server, without its address.
        folder: for its log and its temporary files; it has to exist.
        environment: variables beside those of this process.
        ready_timeout: seconds until it has to answer /health.
        stop_timeout: seconds that it may take to leave.
        told: hears what is waited for.

    Raises:
        LaunchFailed: it ended before it answered, or did not answer in time.

    """
    port, log, scratch = _free_port(), folder / "server.log", folder / "tmp"
    scratch.mkdir()
    started, before = time.monotonic(), set(Path(SHARED_MEMORY).glob("*"))
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {}), "TMPDIR": str(scratch)},
            start_new_session=True,
            preexec_fn=partial(die_with_parent, signal.SIGTERM),
        )
    server = Launched(url=f"http://127.0.0.1:{port}", process=process, seconds=0.0)
    try:
        _wait_until_ready(server, log, started + ready_timeout, told)
        server.seconds = round(time.monotonic() - started, 1)
        yield server
    finally:
        server.left = _end(process, port, before, stop_timeout, told)


def _wait_until_ready(server: Launched, log: Path, deadline: float, told: Told) -> None:
    begun, spoken = time.monotonic(), 0.0
    with httpx.Client(trust_env=False, timeout=20.0) as client:
        while True:
            status = server.process.poll()
            if status is not None:
                raise LaunchFailed(f"the server {_how(status)} before it answered\n{_tail(log)}")
            with contextlib.suppress(httpx.TransportError):
                if client.get(f"{server.url}/health").is_success:
                    return
            now = time.monotonic()
            if now > deadline:
                waited = f"{now - begun:.0f} s"
                raise LaunchFailed(f"the server did not answer /health within {waited}\n{_tail(log)}")
            if now - spoken > 10:
                told(f"waiting for the server to answer, {now - begun:.0f} s of {deadline - begun:.0f} s")
                spoken = now
            time.sleep(0.3)


def _how(status: int) -> str:
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def _tail(log: Path) -> str:
    return tail(log.read_text(errors="replace"))


def _free_port() -> int:
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        return int(probing.getsockname()[1])


def _end(
    process: subprocess.Popen[bytes], port: int, before: set[Path], stop_timeout: float, told: Told
) -> tuple[str, ...]:
    """End a server and everything of its session; returns what had outlived it, which is ended too."""
    made = _shared_memory(process.pid) - before
    try:
        if process.poll() is None:
            told("waiting for the server to leave")
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(stop_timeout)
        _wait_for_the_last(process.pid)
        left = [f"process {pid} ({name})" for pid, name in _session(process.pid).items()]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pid in _session(process.pid):  # a process group of its own
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with socket.socket() as probing:
        if probing.connect_ex(("127.0.0.1", port)) == 0:
            left.append(f"somebody listens on port {port}")
    for file in made:  # sglang unlinks none (managers/load_snapshot.py of 0.5.23)
        with contextlib.suppress(OSError):
            file.unlink()
    return tuple(left)


def _wait_for_the_last(leader: int) -> None:
    """Give what a server started a while to go after it: of a GPU's memory it takes seconds to let go."""
    deadline = time.monotonic() + LAST_TIMEOUT
    while _session(leader) and time.monotonic() < deadline:
        time.sleep(0.1)


def _session(leader: int) -> dict[int, str]:
    """Processes of a session that still run, by number (Linux; elsewhere none are found)."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            head, _, rest = (entry / "stat").read_text().rpartition(")")
            state, _, _, session = rest.split()[:4]
            if int(session) == leader and state not in "ZX":
                found[int(entry.name)] = head.partition("(")[2]
    return found


def _shared_memory(leader: int) -> set[Path]:
    """Files of shared memory that a session's processes have mapped."""
    found = set()
    for pid in _session(leader):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                path = line.partition(SHARED_MEMORY)[2]
                if path and not path.endswith(" (deleted)"):
                    found.add(Path(SHARED_MEMORY + path))
    return found
