"""The probe's own side of the conversation: one fork per case, and what becomes of a bad one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

import pytest

from contracts.facts import DraftFacts
from contracts.probes import stream
from contracts.probes.recording import RecordingDict
from contracts.probes.stream import OutOfReach, Refusals


class Probe:
    """Does what the case says."""

    def setup(self, device: str) -> tuple[str, ...]:
        return ("a stand-in",)

    def observe(self, case: dict[str, Any], refusals: Refusals) -> DraftFacts:
        print("working on", case["case"])
        what = case["case"]
        if what == "crash":
            os.abort()
        if what == "hang":
            if "note" in case:
                Path(case["note"]).write_text(str(os.getpid()))
            time.sleep(600)
        if what == "grandchild":
            subprocess.Popen(["sleep", "600"])
        if what == "exit":
            os._exit(4)
        if what == "raise":
            raise ValueError("out of order")
        if what == "refuse":
            with refusals.stage("load"):
                json.loads("{")  # raised inside a library
        if what == "blunder":
            with refusals.stage("load"):
                stream_blunder()
        if what in TROUBLE:
            with refusals.stage("load"):
                in_library(TROUBLE[what])
        if what.startswith("litter"):
            Path(case["note"]).write_text(tempfile.mkdtemp())
            tempfile.NamedTemporaryFile(delete=False).close()
            if what == "litter and crash":
                os.abort()
        if what == "leak":
            sys.modules["leaked"] = types.ModuleType("leaked")
        assert what == "leak" or "leaked" not in sys.modules
        return DraftFacts(architecture="A")


TROUBLE: dict[str, BaseException] = {
    "memory": MemoryError("cannot allocate"),
    "disk": OSError(28, "No space left on device"),
    "stand_in": OutOfReach("sgl_kernel.x was called"),
    "meta": RuntimeError("Tensor.item() cannot be called on meta tensors"),
    "loopback": RuntimeError("gloo: unable to find address for lo"),
    "allocator": RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    "gpu": AssertionError("Torch not compiled with CUDA enabled"),
    "operator": NotImplementedError("Could not run 'torchvision::nms' with arguments from the 'CPU' backend"),
}


def in_library(error: BaseException) -> None:
    """Raise from a file that is not ours."""
    code = compile("def fail(error):\n    raise error", "/site-packages/library.py", "exec")
    scope: dict[str, Any] = {}
    exec(code, scope)
    scope["fail"](error)


def stream_blunder() -> None:
    """What a probe does when the library renamed something: the fault is in a file of ours."""
    exec(compile("raise AttributeError('renamed')", str(Path(stream.__file__)), "exec"))


@pytest.fixture
def conversation(tmp_path: Path) -> Any:
    def hold(*cases: str, timeout: float = 30.0, **more: str) -> list[dict[str, Any]]:
        request = tmp_path / "request.json"
        asked = [{"case": case, **more} for case in cases]
        request.write_text(json.dumps({"cases": asked, "timeout": timeout, "device": "cpu"}))
        receiving, sending = os.pipe()
        stream.serve(Probe(), request, sending)
        with os.fdopen(receiving) as lines:
            return [json.loads(line) for line in lines]

    return hold


def test_hello_cases_end(conversation: Any) -> None:
    hello, case, end = conversation("fine")
    assert hello["kind"] == "hello"
    assert hello["stand_ins"] == ["a stand-in"]
    assert (case["case"], case["facts"]["architecture"], case["error"]) == ("fine", "A", None)
    assert end == {"kind": "end", "cases": 1}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("crash", "killed by SIGABRT"),
        ("exit", "ended with exit status 4 and no answer"),
        ("raise", "ValueError in test_stream.py"),
    ],
)
def test_bad_case_is_an_error_and_stops_no_other(conversation: Any, bad: str, says: str) -> None:
    _, first, second, third, end = conversation("fine", bad, "fine")
    assert says in second["error"]
    assert second["facts"] is None
    assert first["facts"] == third["facts"]
    assert end["cases"] == 3


def test_hanging_case_is_ended(conversation: Any) -> None:
    _, hung, fine, _ = conversation("hang", "fine", timeout=2)
    assert "no answer within 2 s" in hung["error"]
    assert fine["facts"]


def test_log_of_a_dead_case_goes_with_its_error(conversation: Any) -> None:
    _, dead, _ = conversation("crash")
    assert dead["error"].startswith("killed by SIGABRT")
    assert 'File "' in dead["error"]  # where in the Python code it crashed


def test_refusal_of_the_library_is_no_error(conversation: Any) -> None:
    _, case, _ = conversation("refuse")
    (refusal,) = case["refusals"]
    assert (refusal["stage"], refusal["error"]) == ("load", "JSONDecodeError")
    assert case["error"] is None
    assert case["facts"]


def test_blunder_of_the_probe_is_no_refusal(conversation: Any) -> None:
    _, case, _ = conversation("blunder")
    assert "AttributeError" in case["error"]
    assert not case["refusals"]


@pytest.mark.parametrize("trouble", TROUBLE)
def test_trouble_of_the_machine_or_of_a_stand_in_is_no_refusal(conversation: Any, trouble: str) -> None:
    _, case, _ = conversation(trouble)
    assert str(TROUBLE[trouble]) in case["error"]
    assert not case["refusals"]


def test_key_that_the_library_misses_in_a_config_is_a_refusal() -> None:
    """The recorder is in between, and is not taken for the culprit."""
    refusals, config = Refusals(), RecordingDict({}, "eagle_config", set())
    with refusals.stage("load"):
        scope: dict[str, Any] = {}
        exec(compile("def ask(config):\n    config['nope']", "/site-packages/library.py", "exec"), scope)
        scope["ask"](config)
    assert [item.error for item in refusals.items] == ["KeyError"]


def test_message_of_a_library_in_an_os_error_is_a_refusal() -> None:
    refusals = Refusals()
    with refusals.stage("resolve"):
        in_library(OSError("config.json is not a valid JSON file"))
    assert [item.error for item in refusals.items] == ["OSError"]


OURS = str(Path(stream.__file__).with_name("some_probe.py"))
LIBRARY = "/site-packages/library/module.py"


def raised_in(file: str, code: str) -> list[str]:
    """Stages that count as refused when `code`, of that file, raises."""
    refusals = Refusals()
    with refusals.stage("load"):
        exec(compile(code, file, "exec"))
    return [item.stage for item in refusals.items]


@pytest.mark.parametrize(
    "code",
    [
        "import json; json.loads('{')",
        "import dataclasses; dataclasses.replace(3)",
        "import torch; torch.nn.Linear(2, 2).renamed",
        "import torch; torch.zeros(2, 3) @ torch.zeros(2, 3)",
    ],
)
def test_who_called_python_or_torch_is_to_blame(code: str) -> None:
    assert raised_in(LIBRARY, code) == ["load"]
    with pytest.raises(Exception):  # noqa: B017, PT011 (whichever it is, it is passed on)
        raised_in(OURS, code)


@pytest.mark.parametrize(
    "code",
    [
        "raise ValueError('longer than the context; CUDA errors may follow')",
        "raise RuntimeError('this needs a CUDA graph')",
        "raise AssertionError('meta tensor x')",
    ],
)
def test_what_a_library_says_of_cuda_is_its_own(code: str) -> None:
    assert raised_in(LIBRARY, code) == ["load"]


def test_case_ends_with_its_probe(tmp_path: Path) -> None:
    """However the probe ends: here it is killed while its case hangs."""
    request, note = tmp_path / "request.json", tmp_path / "pid"
    request.write_text(
        json.dumps({"cases": [{"case": "hang", "note": str(note)}], "timeout": 60, "device": "cpu"})
    )
    receiving, sending = os.pipe()
    probe = os.fork()
    if probe == 0:
        stream.serve(Probe(), request, sending)
        os._exit(0)
    os.close(sending)
    case = int(_wait_for(note))
    os.kill(probe, signal.SIGKILL)
    os.waitpid(probe, 0)
    os.close(receiving)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _is_running(case):
        time.sleep(0.05)
    assert not _is_running(case)


def _wait_for(note: Path) -> str:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if note.exists() and note.read_text():
            return note.read_text()
        time.sleep(0.05)
    raise AssertionError("the case never began")


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_what_a_case_leaves_running_does_not_hold_it_up(conversation: Any) -> None:
    _, case, end = conversation("grandchild", timeout=5)
    assert case["error"] is None
    assert end["cases"] == 1


@pytest.mark.parametrize("case", ["litter", "litter and crash"])
def test_temporary_files_of_a_case_go_with_it(conversation: Any, tmp_path: Path, case: str) -> None:
    note = tmp_path / "note"
    conversation(case, note=str(note))
    left = Path(note.read_text())
    assert not left.exists()
    assert not left.parent.exists()


def test_cases_do_not_see_each_other(conversation: Any) -> None:
    _, _, after, _ = conversation("leak", "fine")
    assert after["facts"]


def test_tail_is_short_and_narrow() -> None:
    log = "\n".join(["x" * 10_000, "", *map(str, range(100))])
    lines = stream.tail(log).splitlines()
    assert lines[-1] == "99"
    assert len(lines) == stream.LOG_LINES
    assert len(stream.tail("y" * 10_000)) == stream.LOG_LINE_WIDTH
