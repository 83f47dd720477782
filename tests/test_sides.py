from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from contracts import sides
from contracts.sides import BadInterpreter, CacheUnavailable, Side, SideUnavailable, run_probe
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


@pytest.mark.parametrize("version", ["0.4.9", "0.5.21", "0.0.0", "main", "0.5.23-nightly-x"])
def test_release_that_cannot_be_judged_names_those_that_can(tmp_path: Path, version: str) -> None:
    script = fake_python(tmp_path, "sglang", version=version)
    with pytest.raises(SideUnavailable, match=r"can be judged: 0\.5\.22, 0\.5\.23 and newer") as error:
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
    ],
)
def test_broken_probe_is_an_error_with_its_log(tmp_path: Path, steps: tuple[str, ...], says: str) -> None:
    errors = probe(tmp_path, *steps)
    assert set(errors) == {"one", "two"}
    for error in errors.values():
        assert error is not None
        assert says in error
        assert "a line of the log" in error


def test_hanging_probe_is_ended(tmp_path: Path) -> None:
    errors = probe(tmp_path, HELLO, "hang", case_timeout=-9.5, startup_timeout=20)
    assert errors["one"] is not None
    assert "fell silent after 0 of 2 cases" in errors["one"]


def test_probe_that_never_starts_is_ended(tmp_path: Path) -> None:
    errors = probe(tmp_path, "hang", startup_timeout=0.5)
    assert errors["two"] is not None
    assert "fell silent" in errors["two"]


def test_cases_reported_before_a_crash_count(tmp_path: Path) -> None:
    errors = probe(tmp_path, HELLO, "answers", "kill", answers={"one": ANSWERS["*"]})
    assert errors["one"] is None
    assert errors["two"] is not None
    assert "SIGKILL after 1 of 2 cases" in errors["two"]


def test_missing_closing_line_after_all_cases_keeps_them(tmp_path: Path) -> None:
    assert probe(tmp_path, HELLO, "answers") == {"one": None, "two": None}


def test_progress_is_reported(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    side(tmp_path).run(CASES, tmp_path / "cache", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


# ----------------------------------------------------------------------------- cache


def test_equal_run_is_not_repeated(tmp_path: Path) -> None:
    found = side(tmp_path)
    first = found.run(CASES, tmp_path / "cache")
    second = found.run(CASES, tmp_path / "cache")
    assert runs(Path(found.python)) == 1
    assert second == first
    assert first.stand_ins == ("a stand-in",)


def test_other_cases_inputs_or_library_files_run_again(tmp_path: Path) -> None:
    found, cache, source = side(tmp_path), tmp_path / "cache", tmp_path / "input"
    source.write_text("one")
    found.run(CASES, cache, inputs=[source])
    found.run(CASES[:1], cache, inputs=[source])
    source.write_text("two")
    found.run(CASES, cache, inputs=[source])
    plan = json.loads((tmp_path / "python" / "plan.json").read_text())
    changed = json.loads(plan["identity"]) | {"fingerprint": "edited"}
    (tmp_path / "python" / "plan.json").write_text(json.dumps(plan | {"identity": json.dumps(changed)}))
    Side.find("serving", found.python).run(CASES, cache, inputs=[source])
    assert runs(Path(found.python)) == 4


def test_failed_run_is_kept_for_its_session_only(tmp_path: Path) -> None:
    found = side(tmp_path, steps=(HELLO, "exit"))
    for session in ("a", "a", "b"):
        run = found.run(CASES, tmp_path / "cache", session=session)
        assert run.results["one"].error
    assert runs(Path(found.python)) == 2


def test_run_that_broke_off_leaves_nothing_that_counts(tmp_path: Path) -> None:
    found = side(tmp_path)
    folder = found.run(CASES, tmp_path / "cache").folder
    (folder / "run.json").unlink()
    (folder / "half-written").touch()
    assert found.run(CASES, tmp_path / "cache").folder == folder
    assert not (folder / "half-written").exists()


def test_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CacheUnavailable, match="--contracts-cache") as error:
        side(tmp_path).run(CASES, tmp_path / "file" / "cache")
    assert "\n" not in str(error.value)
