from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from contracts import kept, sides
from contracts.conversation import GRACE, RESTARTS, run_probe
from contracts.sides import BadInterpreter, CacheUnavailable, Side, SideUnavailable
from tests.facts import save_draft
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
    cases = [case | {"input": source} for case in CASES]
    found.run(cases, cache)
    found.run([cases[0] | {"more": 1}], cache)
    source.write_text("two")
    found.run(cases, cache)
    plan = json.loads((tmp_path / "python" / "plan.json").read_text())
    changed = json.loads(plan["identity"]) | {"fingerprint": "edited"}
    (tmp_path / "python" / "plan.json").write_text(json.dumps(plan | {"identity": json.dumps(changed)}))
    Side.find("serving", found.python).run(cases, cache)
    assert runs(Path(found.python)) == 4


def test_failed_run_is_kept_for_its_session_only(tmp_path: Path) -> None:
    found = side(tmp_path, steps=("exit",))
    for session in ("a", "a", "b"):
        run = found.run(CASES, tmp_path / "cache", session=session)
        assert run.results["one"].error
    assert runs(Path(found.python)) == 2


def test_killed_run_is_not_taken_for_a_complete_one(tmp_path: Path) -> None:
    found = side(tmp_path, steps=(HELLO, "answers"))  # all cases, no closing line
    for _ in range(2):
        assert found.run(CASES, tmp_path / "cache", session=str(_)).results["two"].error
    assert runs(Path(found.python)) == 2


def test_one_session_leaves_the_failed_run_of_another_alone(tmp_path: Path) -> None:
    found = side(tmp_path, steps=(HELLO, "exit"))
    first = found.run(CASES, tmp_path / "cache", session="a")
    (first.folders["one"] / "draft").touch()
    second = found.run(CASES, tmp_path / "cache", session="b")
    assert second.folders["one"] != first.folders["one"]
    assert (first.folders["one"] / "draft").exists()


def test_run_that_broke_off_leaves_nothing_that_counts(tmp_path: Path) -> None:
    found = side(tmp_path)
    folder = found.run(CASES, tmp_path / "cache").folders["one"]
    (folder / "case.json").unlink()
    (folder / "half-written").touch()
    assert found.run(CASES, tmp_path / "cache").folders["one"] == folder
    assert not (folder / "half-written").exists()


@pytest.mark.parametrize("damage", ["garbled", "truncated", "file_gone", "file_cut"])
def test_damaged_run_is_made_again(tmp_path: Path, damage: str) -> None:
    (tmp_path / "written").write_text("by the probe")
    found = side(tmp_path, files={"written": tmp_path / "written"})
    cases = [case | {"written": "{folder}/written"} for case in CASES]
    folder = found.run(cases, tmp_path / "cache").folders["one"]
    record = folder / "case.json"
    if damage == "garbled":
        record.write_text("{}")
    elif damage == "truncated":
        record.write_text(record.read_text()[:20])
    elif damage == "file_cut":
        (folder / "written").write_text("")
    else:
        (folder / "written").unlink()
    assert found.run(cases, tmp_path / "cache").results["one"].error is None
    assert (folder / "written").read_text() == "by the probe"
    assert runs(Path(found.python)) == 2


def test_old_runs_are_swept(tmp_path: Path) -> None:
    found, cache = side(tmp_path), tmp_path / "cache"
    used = set(map(str, found.run(CASES, cache).folders.values()))
    for name in ("sglang-0.5.9-0123456789abcdef", "sglang-0.5.9-0123456789abcdef.session"):
        (cache / name).mkdir()
    foreign = {"photos", "code.d", "my-photos-2019.old"}
    for name in foreign:
        (cache / name).mkdir()
    kept.sweep(cache, now=time.time() + 2 * 24 * 3600)
    assert sorted(path.name for path in cache.iterdir() if path.is_dir()) == sorted(
        ["sglang-0.5.9-0123456789abcdef", *(Path(name).name for name in used), *foreign]
    )
    kept.sweep(cache, now=time.time() + 40 * 24 * 3600)
    assert {path.name for path in cache.iterdir() if path.is_dir()} == foreign


def test_settings_of_the_library_in_the_environment_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = side(tmp_path)
    found.run(CASES, tmp_path / "cache")
    monkeypatch.setenv("SGLANG_SOMETHING", "1")
    found.run(CASES, tmp_path / "cache")
    assert runs(Path(found.python)) == 2


def test_folder_is_filled_in_wherever_it_stands(tmp_path: Path) -> None:
    cache = tmp_path / 'odd "name" {folder}'
    case = kept.request({"case": "one", "nested": {"list": ["{folder}/x"]}}, cache)
    assert case["nested"]["list"] == [f"{cache}/x"]


def test_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CacheUnavailable, match="--contracts-cache") as error:
        side(tmp_path).run(CASES, tmp_path / "file" / "cache")
    assert "\n" not in str(error.value)


def test_run_is_found_while_files_come_and_go_beside_it(tmp_path: Path) -> None:
    """Another worker writes exports into the folder of a run, under temporary names."""
    (tmp_path / "draft").write_text("weights")
    recorded = kept.manifest(tmp_path)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert kept.is_intact(tmp_path, recorded)
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for number in range(50):
                (tmp_path / f"partial-{number}").write_text("")
            for number in range(50):
                (tmp_path / f"partial-{number}").unlink()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        assert all(kept.is_intact(tmp_path, recorded) for _ in range(300))
    finally:
        stop.set()
        thread.join()
    (tmp_path / "draft").unlink()
    assert not kept.is_intact(tmp_path, recorded)


def test_only_what_is_new_is_asked(tmp_path: Path) -> None:
    found = side(tmp_path)
    found.run(CASES, tmp_path / "cache")
    seen: list[tuple[int, int]] = []
    more = [*CASES, {"case": "three"}]
    run = found.run(more, tmp_path / "cache", progress=lambda done, total: seen.append((done, total)))
    assert set(run.results) == {"one", "two", "three"}
    assert seen == [(0, 1), (1, 1)]


def test_answers_heard_before_an_interrupt_stay(tmp_path: Path) -> None:
    found = side(tmp_path)

    def interrupted(done: int, total: int) -> None:
        if (done, total) == (2, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        found.run(CASES, tmp_path / "cache", progress=interrupted)
    seen: list[int] = []
    found.run(CASES, tmp_path / "cache", progress=lambda _, total: seen.append(total))
    assert seen == [1, 1]
    assert not [path for path in (tmp_path / "cache").iterdir() if "0" * 16 in path.name]


def test_equal_content_elsewhere_is_the_same_case(tmp_path: Path) -> None:
    said = {
        "facts": {},
        "refusals": [{"stage": "load", "error": "E", "message": f"no x in {tmp_path}/a/draft"}],
    }
    found = side(tmp_path, answers={"*": said})
    for place in "ab":
        (tmp_path / place / "draft").mkdir(parents=True)
        (tmp_path / place / "draft" / "config.json").write_text("{}")
    told = [
        found.run([{"case": "one", "draft": tmp_path / place / "draft"}], tmp_path / "cache").results["one"]
        for place in "ab"
    ]
    assert [item.refusals[0].message for item in told] == [
        f"no x in {tmp_path}/{place}/draft" for place in "ab"
    ]
    assert runs(Path(found.python)) == 1


def test_folder_that_another_process_settled_first_stays(tmp_path: Path) -> None:
    place = tmp_path / "sglang-0.5.23-0123456789abcdef"
    first, second = kept.in_progress(place), kept.in_progress(place)
    for made, text in ((first, "first"), (second, "second")):
        (made / "file").write_text(text)
        assert kept.settle(made, place, lambda folder: (folder / "file").exists()) == place
    assert (place / "file").read_text() == "first"
    assert list(tmp_path.iterdir()) == [place]


def test_damaged_folder_gives_way(tmp_path: Path) -> None:
    place = tmp_path / "sglang-0.5.23-0123456789abcdef"
    place.mkdir()
    (place / "rest").touch()
    made = kept.in_progress(place)
    (made / "file").touch()
    kept.settle(made, place, lambda folder: (folder / "file").exists())
    assert [path.name for path in place.iterdir()] == ["file"]


def test_processes_that_export_the_same_at_once_all_read_it(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from contracts import checkpoint, export, exported
from contracts.dialect import Dialect
planned = export.plan(checkpoint.read(Path(sys.argv[1])), Dialect.for_release("0.5.23"))
for number in range(10):
    folder = exported.draft(planned, Path(sys.argv[2]) / str(number))
    assert len((folder / "config.json").read_text()) > 100
"""
    draft = save_draft(tmp_path / "draft")
    for number in range(10):
        (tmp_path / "cache" / str(number)).mkdir(parents=True)
    command = [sys.executable, "-c", code, str(draft), str(tmp_path / "cache")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for process in processes:
        _, told = process.communicate(timeout=120)
        assert process.returncode == 0, told


def test_cases_of_one_name_and_other_contents_are_all_answered(tmp_path: Path) -> None:
    found = side(tmp_path)
    cases = [{"case": "one", "content": content} for content in range(3)]
    found.run(cases, tmp_path / "cache")
    for case in cases:
        assert found.run([case], tmp_path / "cache").results["one"].case == "one"
    assert runs(Path(found.python)) == 1
