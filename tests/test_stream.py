"""The probe's own side of the conversation: one fork per case, and what becomes of a bad one."""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from contracts.facts import DraftFacts
from contracts.probes import stream
from contracts.probes.stream import Refusals


class Probe:
    """Does what the case says."""

    def setup(self) -> tuple[str, ...]:
        return ("a stand-in",)

    def observe(self, case: dict[str, Any], refusals: Refusals) -> DraftFacts:
        print("working on", case["case"])
        what = case["case"]
        if what == "crash":
            os.abort()
        if what == "hang":
            import time

            time.sleep(600)
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
        if what == "leak":
            sys.modules["leaked"] = types.ModuleType("leaked")
        assert what == "leak" or "leaked" not in sys.modules
        return DraftFacts(architecture="A")


def stream_blunder() -> None:
    """What a probe does when the library renamed something: the fault is in a file of ours."""
    exec(compile("raise AttributeError('renamed')", str(Path(stream.__file__)), "exec"))


@pytest.fixture
def conversation(tmp_path: Path) -> Any:
    def hold(*cases: str, timeout: float = 30.0) -> list[dict[str, Any]]:
        request = tmp_path / "request.json"
        request.write_text(json.dumps({"cases": [{"case": case} for case in cases], "timeout": timeout}))
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


def test_cases_do_not_see_each_other(conversation: Any) -> None:
    _, _, after, _ = conversation("leak", "fine")
    assert after["facts"]


def test_tail_is_short_and_narrow() -> None:
    log = "\n".join(["x" * 10_000, "", *map(str, range(100))])
    lines = stream.tail(log).splitlines()
    assert lines[-1] == "99"
    assert len(lines) == stream.LOG_LINES
    assert len(stream.tail("y" * 10_000)) == stream.LOG_LINE_WIDTH
