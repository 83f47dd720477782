"""`contracts matrix` as its user runs it, over fake sides."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from contracts.matrix import cells
from contracts.verdict import Outcome
from tests.bench import FAULTY, Bench
from tests.cells import broken, cell, save, verdict
from tests.facts import SERVED
from tests.fake_python import HELLO, fake_python, runs

SOME = ("--", "-k", "test_norms and plain")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "contracts", "matrix", *arguments]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def given(bench: Bench, *servings: Path) -> Sequence[str]:
    """Options that name the fake sides."""
    named = [f"--serving={serving}" for serving in servings or (bench.serving,)]
    return [f"--training={bench.training}", *named, f"--cache={bench.root / 'cache'}"]


def test_cells_are_filled_and_shown(bench: Bench) -> None:
    result = run(bench.root, *given(bench), *SOME)
    assert result.returncode == 0, result.stderr
    (found,) = cells.read_all([bench.root / "matrix" / "cells"])
    assert found.outcome is Outcome.HOLDS
    assert {it.contract.partition(".")[0] for it in found.verdicts} == {"norms"}
    assert "1/1" in result.stdout
    assert (bench.root / "matrix" / "matrix.html").read_text().startswith("<!doctype html>")
    assert "## Why" in (bench.root / "matrix" / "matrix.md").read_text()
    assert "100%" in result.stderr


def test_unchanged_cell_costs_nothing(bench: Bench) -> None:
    first = run(bench.root, *given(bench), *SOME)
    asked = runs(bench.serving), runs(bench.training)
    second = run(bench.root, *given(bench), "-o", "again", *SOME)
    assert (first.returncode, second.returncode) == (0, 0)
    assert (runs(bench.serving), runs(bench.training)) == asked
    assert "1 of them known already" in second.stderr
    records = [(bench.root / name / "cells").iterdir() for name in ("matrix", "again")]
    assert len({file.read_text() for folder in records for file in folder}) == 1


def test_cell_with_something_accepted_until_yesterday_is_judged_again(bench: Bench) -> None:
    run(bench.root, *given(bench), *SOME)
    (kept,) = bench.root.glob("cache/verdicts-*/*.jsonl")
    kept.write_text(
        kept.read_text().replace('"outcome": "holds"', '"outcome": "known", "until": "2000-01-01"')
    )
    second = run(bench.root, *given(bench), "-o", "again", *SOME)
    assert "0 of them known already" in second.stderr


def test_side_runs_once_for_all_pairs(bench: Bench) -> None:
    other = fake_python(
        bench.root / "other", "speculators", version="0.8.1", files=bench.trained,
        answers=json.loads((bench.root / "training" / "plan.json").read_text())["answers"],
    )  # fmt: skip
    result = run(bench.root, *given(bench), f"--training={other}", *SOME)
    assert result.returncode == 0, result.stderr
    assert len(cells.read_all([bench.root / "matrix"])) == 2
    assert runs(bench.serving) == 1  # equal drafts of two releases are one case


def test_broken_interface_is_exit_status_1(bench: Bench) -> None:
    bench.serve(FAULTY)
    result = run(bench.root, *given(bench), *SOME)
    assert result.returncode == 1, result.stderr
    assert "B 0/1" in result.stdout


def test_side_that_is_none_is_told_in_its_cells(bench: Bench) -> None:
    absent = fake_python(bench.root / "absent", "sglang", version=None)
    result = run(bench.root, *given(bench, absent, bench.serving), *SOME)
    assert result.returncode == 3, result.stderr
    outcomes = {found.unavailable is None: found.outcome for found in cells.read_all([bench.root / "matrix"])}
    assert outcomes == {True: Outcome.HOLDS, False: Outcome.ERROR}
    assert "sglang is not installed in" in result.stdout


def test_probe_that_crashes_is_an_error_of_its_cells_and_is_tried_again(bench: Bench) -> None:
    bench.serve(SERVED, steps=(HELLO, "kill"))
    for _ in range(2):
        result = run(bench.root, *given(bench), *SOME)
        assert result.returncode == 3, result.stderr
        assert "0 of them known already" in result.stderr
        (found,) = cells.read_all([bench.root / "matrix"])
        assert found.outcome is Outcome.ERROR


def test_release_that_does_not_exist_is_one_line_of_its_cell(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/none")
    monkeypatch.setenv("UV_INDEX_URL", "http://127.0.0.1:9/none")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    result = run(bench.root, *given(bench), "--serving=9.9.9", f"--over={sys.executable}", *SOME)
    assert result.returncode == 3, result.stderr
    missing = [found for found in cells.read_all([bench.root / "matrix"]) if found.unavailable]
    assert [found.pair.serving for found in missing] == ["9.9.9"]
    assert "sglang==9.9.9" in str(missing[0].unavailable)


@pytest.mark.parametrize("how", ["SIGTERM", "Ctrl-C"])
def test_interrupted_run_leaves_no_probe_and_goes_on(bench: Bench, how: str) -> None:
    bench.serve(SERVED, steps=(HELLO, "leave a child", "hang"))
    process = subprocess.Popen(
        command(*given(bench), *SOME),
        cwd=bench.root,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    note = bench.serving.parent / "plan.json.child"
    deadline = time.monotonic() + 120
    while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    if how == "Ctrl-C":
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everything in the foreground gets it
    else:
        process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "goes on there" in told
    assert not _alive(int(note.read_text()))
    bench.serve(SERVED)
    before = runs(bench.training)
    assert run(bench.root, *given(bench), *SOME).returncode == 0
    assert runs(bench.training) == before


def test_other_contracts_are_not_served_from_what_was_kept(bench: Bench, tmp_path: Path) -> None:
    """Neither a file that an option names nor the environment can make verdicts stand for others."""
    known = tmp_path / "known.toml"
    known.write_text("")
    asked = [*given(bench), *SOME, "--contracts-known=known.toml"]
    assert run(tmp_path, *asked).returncode == 0
    assert "1 of them known already" in run(tmp_path, *asked).stderr
    known.write_text("# changed\n")
    assert "0 of them known already" in run(tmp_path, *asked).stderr


def test_options_of_pytest_in_the_environment_do_not_count(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k nothing_at_all")
    result = run(bench.root, *given(bench), *SOME)
    assert result.returncode == 0, result.stderr
    assert "1/1" in result.stdout


@pytest.mark.parametrize("options", [["--bogus"], ["-k", "no_such_contract"]])
def test_options_that_select_nothing_are_told_before_anything_runs(bench: Bench, options: list[str]) -> None:
    result = run(bench.root, *given(bench), "--", *options)
    assert result.returncode == 2
    assert "pytest judges nothing with" in result.stderr
    assert runs(bench.training) == 0


def test_option_that_probes_have_to_know_is_refused(bench: Bench) -> None:
    result = run(bench.root, *given(bench), "--", "--device=cuda")
    assert result.returncode == 2
    assert "set CONTRACTS_DEVICE instead" in result.stderr


def test_page_that_cannot_be_written_is_one_line(bench: Bench) -> None:
    (bench.root / "matrix" / "matrix.html").mkdir(parents=True)
    result = run(bench.root, *given(bench), *SOME)
    assert result.returncode == 2
    assert "matrix.html" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"


# ----------------------------------------------------------------------- without a run


def test_cells_of_many_machines_are_put_together(tmp_path: Path) -> None:
    for number, made in enumerate((cell("0.9.0", "0.5.23", verdict()), cell("0.8.1", "0.5.23", broken()))):
        save(tmp_path / "artifacts" / f"cell-{number}", [made])
    result = run(tmp_path, "--merge", *(f"artifacts/cell-{number}" for number in range(2)), "-o", "page")
    assert result.returncode == 1, result.stderr
    assert "| 0.5.23 | B 0/1 | . 1/1 |" in (tmp_path / "page" / "matrix.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--training", "sglang==0.5.9"], "of sglang, not of speculators"),
        (["--serving", "banana"], "not understood"),
        (["--merge", "nowhere"], "no cell of a matrix"),
        (["--merge", ".", "--newest", "2"], "--merge runs nothing"),
        (["--over", "nowhere", "--newest", "1"], "there is no nowhere"),
        (["--newest", "1", "-o", "file/below"], "cannot be made"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "file").touch()
    result = run(tmp_path, f"--cache={tmp_path / 'cache'}", *arguments)
    assert result.returncode == 2
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
