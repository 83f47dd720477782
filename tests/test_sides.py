from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from contracts import sides
from contracts.conversation import GRACE, RESTARTS, run_probe
from contracts.sides import BadInterpreter, Side, SideUnavailable
from tests.fake_python import HELLO, fake_python, runs

ANSWERS: dict[str, Any] = {"*": {"facts": {"architecture": "A"}, "seconds": 0.1}}
CASES = [{"case": "one"}, {"case": "two"}]


def side(tmp_path: Path, **options: Any) -> Side:
    script = fake_python(tmp_path / "python", "sglang", version="0.5.23", **{"answers": ANSWERS, **options})
    return Side.find("serving", str(script))


def probe(tmp_path: Path, *steps: str, **options: Any) -> dict[str, str | None]:
    """Errors by case of a probe run that takes these steps."""
    script = fake_python(tmp_path / "python", "sglang", steps=steps, answers=options.pop("answers", ANSWERS))
    results, _ = run_probe(str(script), "sglang", CASES, tmp_path, **options)
    return {result.case: result.error for result in results}


# ------------------------------------------------------------------- finding a side


def test_finds_a_release(tmp_path: Path) -> None:
    found = side(tmp_path)
    assert (found.library, found.version) == ("sglang", "0.5.23")


def test_library_not_installed_says_how_to_get_it(tmp_path: Path) -> None:
    script = fake_python(tmp_path, "sglang", version=None)
    with pytest.raises(SideUnavailable) as error:
        Side.find("serving", str(script))
    assert "pip install sglang" in str(error.value)
    assert "--serving-python" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("version", ["0.4.9", "0.5.5", "0.0.0", "main", "0.5.23-nightly-x"])
def test_release_that_cannot_be_judged_names_those_that_can(tmp_path: Path, version: str) -> None:
    script = fake_python(tmp_path, "sglang", version=version)
    with pytest.raises(SideUnavailable, match=r"can be judged: 0\.5\.6, .*, 0\.5\.23 and newer") as error:
        Side.find("serving", str(script))
    assert version in str(error.value)


@pytest.mark.parametrize("version", ["0.5.23.post1", "0.5.24", "0.6.0rc1", "1.0"])
def test_newer_release_is_judged(tmp_path: Path, version: str) -> None:
    script = fake_python(tmp_path, "sglang", version=version)
    assert Side.find("serving", str(script)).version == version


def test_interpreter_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(BadInterpreter, match=r"--serving-python: no such interpreter: .*nowhere"):
        Side.find("serving", str(tmp_path / "nowhere"))


@pytest.mark.parametrize("identity", ["", "Segmentation fault", "{}", "[1]"])
def test_interpreter_that_is_none(tmp_path: Path, identity: str) -> None:
    script = fake_python(tmp_path, "sglang", identity=identity)
    with pytest.raises(BadInterpreter, match="--training-python"):
        Side.find("training", str(script))


def test_file_that_cannot_be_run(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_bytes(b"\x7fELF broken")
    script.chmod(0o755)
    with pytest.raises(BadInterpreter, match="does not run"):
        Side.find("serving", str(script))


def test_real_interpreter_is_identified() -> None:
    identity = sides.identify("serving", sys.executable)
    assert identity.executable == sys.executable
    assert identity.packages["torch"]


# --------------------------------------------------------------- what a probe may do


def test_good_probe(tmp_path: Path) -> None:
    assert probe(tmp_path, HELLO, "answers", "end") == {"one": None, "two": None}


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ((HELLO, "kill"), "was killed by SIGKILL after 0 of 2 cases"),
        (("exit",), "exit status 3 after 0 of 2 cases, without its closing line"),
        ((HELLO, "exit"), "without its closing line"),
        ((HELLO, "Segmentation fault"), "no message"),
        ((HELLO, "[1, 2]"), "no message"),
        ((HELLO, '{"kind": "case", "case": "one", "facts": {"architecture": 7}}'), "no message"),
        (('{"kind": "hello", "protocol": 99, "stand_ins": []}',), "another protocol"),
        (("answers", "end"), "another protocol"),  # no hello
        ((HELLO, "end"), "ended after 0 of 2 cases"),
        ((HELLO, '{"kind": "case", "case": "three"}'), "answered for 'three', which was not its turn"),
    ],
)
def test_broken_probe_is_an_error_with_its_log(tmp_path: Path, steps: tuple[str, ...], says: str) -> None:
    errors = probe(tmp_path, *steps)
    assert set(errors) == {"one", "two"}
    assert errors["one"] is not None
    assert says in errors["one"]
    assert "a line of the log" in errors["one"]
    assert errors["two"] is not None


def test_hanging_probe_is_ended(tmp_path: Path) -> None:
    errors = probe(tmp_path, HELLO, "hang", case_timeout=0.5 - GRACE)
    assert errors["one"] is not None
    assert "fell silent after 0 of 2 cases" in errors["one"]


def test_probe_that_never_starts_is_ended(tmp_path: Path) -> None:
    errors = probe(tmp_path, "hang", startup_timeout=0.5)
    for error in errors.values():
        assert error is not None
        assert "fell silent" in error


def test_dead_process_costs_the_case_it_was_at_and_no_other(tmp_path: Path) -> None:
    cases = [{"case": name} for name in ("one", "deadly", "three")]
    script = fake_python(tmp_path / "python", "sglang", steps=(HELLO, "answers", "end"), answers=ANSWERS)
    results, _ = run_probe(str(script), "sglang", cases, tmp_path)
    errors = {result.case: result.error for result in results}
    assert errors["one"] is errors["three"] is None
    assert errors["deadly"] is not None
    assert "SIGKILL after 1 of 3 cases" in errors["deadly"]
    assert runs(script) == 2


def test_process_that_dies_at_every_case_is_given_up(tmp_path: Path) -> None:
    cases = [{"case": f"deadly{number}"} for number in range(20)]
    script = fake_python(tmp_path / "python", "sglang", steps=(HELLO, "answers", "end"), answers=ANSWERS)
    results, _ = run_probe(str(script), "sglang", cases, tmp_path)
    assert all(result.error for result in results)
    assert runs(script) == RESTARTS + 1


def test_missing_closing_line_is_an_error_even_after_the_last_case(tmp_path: Path) -> None:
    errors = probe(tmp_path, HELLO, "answers")
    assert errors["one"] is None
    assert errors["two"] is not None
    assert "after 2 of 2 cases, without its closing line" in errors["two"]


def test_what_a_probe_leaves_running_is_ended(tmp_path: Path) -> None:
    probe(tmp_path, HELLO, "answers", "leave a child", "end")
    child = int((tmp_path / "python" / "plan.json.child").read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}/stat").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
            break  # ended; whoever adopted it has not looked yet
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{child}/stat").exists()


def test_progress_is_reported(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    side(tmp_path).run(CASES, tmp_path / "cache", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 2), (1, 2), (2, 2)]
