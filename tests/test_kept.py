"""What a probe answered is kept case by case, and found again."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from contracts import kept
from contracts.sides import CacheUnavailable, Side
from tests.facts import save_draft
from tests.fake_python import HELLO, runs
from tests.test_sides import CASES, side


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
