"""Servers that are started, waited for and ended: whatever they do, nothing hangs and nothing stays."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from contracts import launch, service
from contracts.cli import app
from contracts.facts import CaseResult
from contracts.launch import Launched, LaunchFailed, launched
from tests.bench import Bench
from tests.fake_python import runs

FAKE = Path(__file__).with_name("fake_sglang_server.py")


def start(how: str, folder: Path, ready_timeout: float = 20.0, stop_timeout: float = 20.0) -> Launched:
    """Start and end a server."""
    command = [sys.executable, str(FAKE), how]
    with launched(command, folder, ready_timeout=ready_timeout, stop_timeout=stop_timeout) as server:
        assert httpx.get(f"{server.url}/health").is_success
    return server


def test_server_that_is_well_behaved(tmp_path: Path) -> None:
    server = start("is ready", tmp_path)
    assert server.left == ()
    assert 0 < server.seconds < 20
    assert server.process.returncode is not None
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/health")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What outlives a server is not given long."""
    monkeypatch.setattr(launch, "LAST_TIMEOUT", 0.3)


@pytest.mark.usefixtures("impatient")
def test_what_outlives_a_server_is_told_and_ended(tmp_path: Path) -> None:
    (told,) = start("leaves a child", tmp_path).left
    assert told.endswith("(sleep)")
    number = int(told.split()[1])
    with pytest.raises(ProcessLookupError):
        _wait_for(number)


def _wait_for(number: int) -> None:
    """Until a process has gone, which raises."""
    for _ in range(100):
        os.kill(number, 0)
        time.sleep(0.05)


def test_process_that_goes_a_little_later_is_waited_for(tmp_path: Path) -> None:
    assert start("has a slow child", tmp_path).left == ()


def test_server_ends_with_whoever_started_it(tmp_path: Path) -> None:
    script = f"""
import os, sys, time
from pathlib import Path
from contracts.launch import launched
with launched([{sys.executable!r}, {str(FAKE)!r}, "is ready"], Path({str(tmp_path)!r})) as server:
    print(server.process.pid, flush=True)
    os.kill(os.getpid(), 9)
"""
    root = Path(service.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False
    )
    with pytest.raises(ProcessLookupError):
        _wait_for(int(done.stdout))


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="Linux has it")
def test_shared_memory_of_others_is_left_alone(tmp_path: Path) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as model:
        model.write(b"weights")
        model.flush()
        start(f"maps {model.name}", tmp_path)
        assert Path(model.name).exists()


@pytest.mark.usefixtures("impatient")
def test_server_that_does_not_leave_is_told_and_ended(tmp_path: Path) -> None:
    started = time.monotonic()
    (told,) = start("stays", tmp_path, stop_timeout=0.5).left
    assert "python" in told
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("refuses", "the server ended with status 1 before it answered"),
        ("killed", "the server was killed by SIGKILL before it answered"),
    ],
)
def test_server_that_ends_before_it_answers(tmp_path: Path, how: str, says: str) -> None:
    with pytest.raises(LaunchFailed) as failed:
        start(how, tmp_path)
    assert str(failed.value).splitlines()[0] == says


@pytest.mark.parametrize("how", ["silent", "never ready"])
def test_server_that_never_becomes_ready_is_not_waited_for(tmp_path: Path, how: str) -> None:
    heard: list[str] = []
    with (
        pytest.raises(LaunchFailed) as failed,
        launched([sys.executable, str(FAKE), how], tmp_path, ready_timeout=1.0, told=heard.append),
    ):
        pass
    assert str(failed.value).splitlines()[0].startswith("the server did not answer /health within ")
    assert "loading ..." in str(failed.value)
    assert heard[0].startswith("waiting for the server to answer, 0 s of ")


def ask(how: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> CaseResult:
    """What `contracts.service` makes of a server like that."""
    monkeypatch.setattr(service, "_command", lambda *_: [sys.executable, str(FAKE), how])
    case = {"case": "server/x", "device": "cpu", "target": "t", "draft": "d", "prompts": [[1]], "tokens": 2}
    return service.serve(sys.executable, case, folder, lambda _: None)


def test_refusal_is_the_librarys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ask("refuses", tmp_path, monkeypatch)
    (refusal,) = result.refusals
    assert (refusal.stage, refusal.error, refusal.message) == (
        "serve",
        "ValueError",
        "Unsupported architecture",
    )
    assert result.error is None


def test_refusal_counts_whatever_else_the_log_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ask("warns and refuses", tmp_path, monkeypatch)
    assert [item.message for item in result.refusals] == ["Unsupported architecture"]


def test_model_that_cannot_be_widened_is_told(tmp_path: Path) -> None:
    case = {"case": "server/x", "device": "cuda", "target": str(tmp_path), "draft": str(tmp_path)}
    result = service.serve(sys.executable, case, tmp_path, lambda _: None)
    assert (result.error or "").startswith("the model could not be given wider heads: ")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("out of memory", "the server cannot run here: RuntimeError: Not enough memory."),
        (
            "old driver",
            "the server cannot run here: RuntimeError: The NVIDIA driver on your system is too old",
        ),
        ("port taken", "the server cannot run here: ERROR: [Errno 98] error while attempting to bind"),
        ("killed", "the server was killed by SIGKILL before it answered"),
        ("is ready", "HTTPStatusError: "),  # and answers nothing else
    ],
)
def test_machine_that_cannot_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, says: str
) -> None:
    result = ask(how, tmp_path, monkeypatch)
    assert result.error is not None
    assert result.error.startswith(says)
    assert not result.refusals
    assert not (tmp_path / "tmp").exists()


def test_server_contracts_are_left_out_unless_they_are_asked_for(bench: Bench) -> None:
    result = bench.run(target="contracts.test_server", k="server_answers")
    result.stdout.fnmatch_lines(["collected * deselected / 0 selected"])
    assert runs(bench.serving) == 0
    result = bench.run("-m", "contracts and server", target="contracts.test_server", k="server_answers")
    assert result.ret != 0  # the fake interpreter starts no server
    told = {line["case"]: line["outcome"] for line in bench.record()[1:-1]}
    assert told.keys() == {"server/trained", "two_ranks/trained"}


# ---------------------------------------------------------------------- contracts acceptance --launch


def acceptance(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["acceptance", *arguments])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give the address of a server with --url, or have one started with --launch"),
        (["--url", "http://x", "--launch", "y"], "give the address of a server with --url, or"),
        (["--launch", "no-such-program --model x"], "--launch: there is no program no-such-program"),
        (["--launch", ""], "--launch: there is no program at all"),
        (["--launch", "'"], "--launch: No closing quotation"),
        (
            ["--launch", f"{sys.executable} {FAKE} refuses"],
            "the server ended with status 1 before it answered",
        ),
        (
            ["--launch", f"{sys.executable} {FAKE} silent", "--ready-timeout", "1"],
            "the server did not answer /health within 1 s",
        ),
        (["--launch", f"{sys.executable} {FAKE} 'is ready'"], "neither sglang (no /server_info) nor vLLM"),
    ],
)
def test_launch_that_comes_to_nothing_is_told(arguments: list[str], says: str) -> None:
    result = acceptance(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert "Traceback (most recent call last)" not in result.stderr or "refuses" in str(arguments)
