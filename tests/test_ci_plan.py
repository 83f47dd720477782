"""`contracts ci`: which pairs are judged, by whom, and what is told when a verdict changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from contracts.causes import Cause
from contracts.ci import changes, difference, plan
from contracts.ci.changes import Change
from contracts.ci_command import _commands, _part
from contracts.cli import app
from contracts.matrix import views
from contracts.records import catalog
from contracts.terminal import EXIT_NOT_RUN
from tests.cells import broken, cell, save, verdict
from tests.fake_python import ONE_GPU, fake_python

TRAINING, SERVING = (catalog(name).matrix for name in ("speculators", "sglang"))


def ci(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["ci", *arguments])


def planned(*arguments: str) -> dict[str, Any]:
    result = ci("plan", *arguments)
    assert result.exit_code == 0, result.output
    made: dict[str, Any] = json.loads(result.stdout)
    return made


def pairs(made: dict[str, Any]) -> list[tuple[str, str]]:
    return [(it["training"], it["serving"]) for it in made["cells"]]


# ------------------------------------------------------------------------------------ plan


def test_newest_pair_and_the_one_before_by_default() -> None:
    made = planned()
    assert pairs(made) == [(TRAINING[-1], SERVING[-1]), (TRAINING[-2], SERVING[-2])]
    assert made["sides"] == {"training": list(TRAINING[-2:][::-1]), "serving": list(SERVING[-2:][::-1])}
    assert (made["format"], made["tier"]) == (plan.FORMAT, "cpu")


def test_plan_is_one_line_on_stdout_and_why_on_stderr() -> None:
    result = ci("plan", "--newest", "1", "--tier", "gpu")
    assert result.stdout.count("\n") == 1
    assert "1 cells on gpu" in result.stderr


def test_plan_of_everything() -> None:
    made = planned("--pairs", "all")
    assert len(made["cells"]) == len(TRAINING) * len(SERVING) <= plan.MOST_CELLS
    assert sum(map(len, made["sides"].values())) == len(TRAINING) + len(SERVING)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of git with one commit, in which one stands."""
    monkeypatch.chdir(tmp_path)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    write("contracts/known.toml", "")
    write("contracts/probes/sglang.py", "1")
    write("requirements.txt", "sglang==0.5.22\n")
    git("init", "-q", "-b", "main")
    commit()
    git("checkout", "-q", "-b", "work")
    return tmp_path


def git(*words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *words], check=True, capture_output=True)


def write(name: str, text: str) -> None:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def commit() -> None:
    git("add", "-A")
    git("commit", "-qm", "a change")


NEWEST_TRAINING, NEWEST_SERVING = TRAINING[-1], SERVING[-1]
BOTH_NEWEST = [(TRAINING[-1], SERVING[-1]), (TRAINING[-2], SERVING[-2])]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("README.md", "words", []),
        ("docs/page.md", "words", []),
        ("tests/test_x.py", "1", []),
        ("contracts/test_norms.py", "1", BOTH_NEWEST),
        ("contracts/releases/sglang/0.5.9.json", "{}", [(NEWEST_TRAINING, "0.5.9")]),
        ("contracts/releases/targets/0.5.9.json", "{}", [(NEWEST_TRAINING, "0.5.9")]),
        ("contracts/releases/speculators/0.5.0.json", "{}", [("0.5.0", NEWEST_SERVING)]),
        ("contracts/probes/sglang.py", "2", [(NEWEST_TRAINING, it) for it in SERVING[::-1]]),
        ("contracts/probes/kernels/x.py", "1", [(NEWEST_TRAINING, it) for it in SERVING[::-1]]),
        ("contracts/probes/speculators.py", "1", [(it, NEWEST_SERVING) for it in TRAINING[::-1]]),
        (
            "contracts/known.toml",
            '[[known]]\ntraining = "==0.9.0"\nserving = ">=0.5.22"\n',
            [(NEWEST_TRAINING, "0.5.23"), (NEWEST_TRAINING, "0.5.22")],
        ),
        ("requirements.txt", "sglang==0.5.24\n", [(NEWEST_TRAINING, "0.5.24")]),
        ("contracts/requirements/cpu.txt", "sglang==0.5.22\n", [(NEWEST_TRAINING, "0.5.22")]),
        ("notes.md", "it works with sglang==0.5.9.\n", []),
    ],
)
def test_what_changed_decides_what_is_judged(
    clone: Path, name: str, text: str, expected: list[tuple[str, str]]
) -> None:
    write(name, text)
    commit()
    assert pairs(planned("--pairs", "changed", "--since", "main")) == expected


def test_newest_pairs_are_judged_whatever_changed(clone: Path) -> None:
    assert pairs(planned("--since", "main")) == BOTH_NEWEST
    write("contracts/releases/sglang/0.5.9.json", "{}")
    commit()
    assert pairs(planned("--since", "main")) == [*BOTH_NEWEST, (NEWEST_TRAINING, "0.5.9")]


def test_plan_is_the_same_below_the_root(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("contracts/known.toml", '[[known]]\ntraining = "==0.9.0"\nserving = "==0.5.22"\n')
    commit()
    above = pairs(planned("--since", "main"))
    monkeypatch.chdir(clone / "contracts")
    assert pairs(planned("--since", "main")) == above
    assert len(above) == 3


def test_what_is_not_committed_counts_too(clone: Path) -> None:
    write("contracts/probes/sglang.py", "2")
    assert len(pairs(planned("--pairs", "changed", "--since", "main"))) == len(SERVING)


def test_what_happened_on_the_other_branch_meanwhile_does_not_count(clone: Path) -> None:
    git("checkout", "-q", "main")
    write("contracts/probes/sglang.py", "2")
    commit()
    git("checkout", "-q", "work")
    result = ci("plan", "--pairs", "changed", "--since", "main")
    assert json.loads(result.stdout)["cells"] == []
    assert "nothing that a verdict depends on changed since main" in result.stderr


def test_release_that_is_new_in_the_catalogue() -> None:
    assert changes._catalogue(
        {"sglang": {"matrix": list(SERVING[:-1])}, "speculators": {"matrix": TRAINING}}
    ) == Change(why="contracts/releases/catalog.toml", sides=(("serving", SERVING[-1]),))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--pairs", "changed"], "--pairs changed: since when?"),
        (["--pairs", "all", "--since", "main"], "--since: --pairs all judges every release"),
        (["--pairs", "changed", "--since", "nowhere"], "fetch the whole history"),
        (["--pairs", "changed", "--since=--output=x"], "not a name of a commit"),
    ],
)
def test_bad_input_of_a_plan_is_one_line(clone: Path, arguments: list[str], says: str) -> None:
    result = ci("plan", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("text", ["[[known", '[[known]]\ntraining = "banana"\n'])
def test_known_that_cannot_be_read_is_one_line(clone: Path, text: str) -> None:
    write("contracts/known.toml", text)
    result = ci("plan", "--since", "main")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "contracts/known.toml: " in result.stderr


def test_runner_whose_interpreter_is_missing() -> None:
    result = ci("machine", "--tier", "gpu", "--serving-python", "/nowhere/python")
    assert result.exit_code == 2
    assert "no such interpreter: /nowhere/python" in result.stderr


def test_plan_outside_of_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    result = ci("plan", "--pairs", "changed", "--since", "main")
    assert result.exit_code == 2
    assert "not a git repository" in result.stderr


# ------------------------------------------------------------------------------------- run


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    file = tmp_path / "plan.json"
    file.write_text(ci("plan", "--tier", "gpu", "--newest", "2").stdout)
    return file


@pytest.mark.parametrize(
    ("stage", "index", "command"),
    [
        ("training", 1, f"prepare --training speculators=={TRAINING[-2]}"),
        ("serving", 0, f"provision --exact sglang=={SERVING[-1]}"),
    ],
)
def test_part_of_a_plan_is_a_public_command(
    plan_file: Path, monkeypatch: pytest.MonkeyPatch, stage: str, index: int, command: str
) -> None:
    asked: list[tuple[list[str], str | None]] = []

    def run(words: list[str], *, env: dict[str, str], check: bool) -> subprocess.CompletedProcess[str]:
        asked.append((words, env.get("CONTRACTS_DEVICE")))
        return subprocess.CompletedProcess(words, 3)

    monkeypatch.setattr(subprocess, "run", run)
    result = ci("run", str(plan_file), "--stage", stage, "--index", str(index), "-o", "part")
    assert result.exit_code == 3  # its own
    assert asked == [([sys.executable, "-m", "contracts", *command.split()], "cuda")]


def test_gpu_side_has_its_own_kernels_before_it_is_judged() -> None:
    made = plan.make(plan.Tier.GPU, plan.Pairs.NEWEST, newest=1, since=None, root=Path())
    judged = ["matrix", "--training", TRAINING[-1], "--serving", SERVING[-1], "--output", "part"]
    assert _commands(made, "serving", SERVING[-1], Path("part")) == [
        ["provision", "--exact", f"sglang=={SERVING[-1]}"],
        judged,
    ]
    on_cpu = replace(made, tier=plan.Tier.CPU)
    assert _commands(on_cpu, "serving", SERVING[-1], Path("part")) == [judged]


def test_stages_cover_each_cell_once(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(ci("plan", "--pairs", "all").stdout)
    made = plan.read(file)
    covered = [
        (words[place + 1], release)
        for release in made.sides["serving"]
        for words in [_part(made, "serving", release, tmp_path)]
        for place, word in enumerate(words)
        if word == "--training"
    ]
    assert sorted(covered) == sorted((it.training, it.serving) for it in made.cells)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file"),
        ("{", "no plan; make one with contracts ci plan"),
        ("[]", "no plan; make one"),
        ('{"format": 1, "tier": "tpu", "pairs": "all"}', "no plan; make one"),
        ('{"format": 9}', "a plan of format 9; this version reads 1"),
    ],
)
def test_file_that_is_no_plan(tmp_path: Path, content: str | None, says: str) -> None:
    file = tmp_path / "plan.json"
    if content is not None:
        file.write_text(content)
    result = ci("run", str(file), "--stage", "serving", "--index", "0")
    assert result.exit_code == 2
    assert says in result.stderr


def test_place_that_a_plan_does_not_have(plan_file: Path) -> None:
    result = ci("run", str(plan_file), "--stage", "serving", "--index", "2")
    assert result.exit_code == 2
    assert "--index 2: the plan has 2 releases of sglang, from 0" in result.stderr


# --------------------------------------------------------------------------------- machine


def test_runner_with_a_gpu_is_told(tmp_path: Path) -> None:
    python = fake_python(tmp_path, "sglang", machine=ONE_GPU | {"backends": ["triton", "fa9"]})
    result = ci("machine", "--tier", "gpu", "--serving-python", str(python))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "gpu: a GPU (9.0); torch 2.14.1; attention: triton, fa9",
        "attention backend fa9 is one that this version does not know, and does not judge",
    ]


def test_runner_without_a_gpu_is_told_in_one_line(tmp_path: Path) -> None:
    said = {"torch": "2.14.1", "gpus": [], "reason": "torch 2.14.1 finds no GPU here (the driver is too old)"}
    python = fake_python(tmp_path, "sglang", machine=said)
    result = ci("machine", "--tier", "gpu", "--serving-python", str(python))
    assert result.exit_code == EXIT_NOT_RUN
    (line,) = result.stderr.strip().splitlines()
    assert "the driver is too old); the job needs a runner with a GPU" in line


def test_runner_of_the_cpu_tier() -> None:
    assert ci("machine").stdout == f"cpu: {os.cpu_count()} cores\n"


# --------------------------------------------------------------------------------- changes

HOLDING = cell("0.9.0", "0.5.23", verdict(), verdict(case="two_layers"))
BROKEN = cell("0.9.0", "0.5.23", verdict(), broken(case="two_layers"))
OTHER = cell("0.8.1", "0.5.23", verdict())


def written(folder: Path, *cells_of_before: Any) -> Path:
    file = folder / "matrix.md"
    file.write_text(views.markdown(list(cells_of_before)))
    return file


def test_matrix_is_read_as_it_was_written(tmp_path: Path) -> None:
    told = difference.read(written(tmp_path, HOLDING, OTHER))
    assert told == {HOLDING.pair: ". 2/2", OTHER.pair: ". 1/1"}


def test_matrix_of_the_documents_is_read() -> None:
    told = difference.read(Path(__file__).parent.parent / "docs" / "matrix.md")
    assert len(told) == len(TRAINING) * len(SERVING)


def test_verdict_that_changed_is_the_text_of_an_issue(tmp_path: Path) -> None:
    before, after = written(tmp_path, HOLDING, OTHER), save(tmp_path / "cells", [BROKEN, OTHER])
    result = ci("changes", str(before), str(after), "-o", str(tmp_path / "issue.md"))
    assert result.exit_code == 1
    text = (tmp_path / "issue.md").read_text()
    assert "| 0.9.0 | 0.5.23 | . 2/2 | B 1/2 |" in text
    assert "`norms.norm_output_is_honoured` [two_layers] broken: norm-differs:" in text
    assert "0.8.1" not in text


def test_nothing_is_written_if_nothing_changed(tmp_path: Path) -> None:
    before, after = written(tmp_path, HOLDING), save(tmp_path / "cells", [HOLDING])
    result = ci("changes", str(before), str(after), "-o", str(tmp_path / "issue.md"))
    assert result.exit_code == 0
    assert not (tmp_path / "issue.md").exists()


def test_cell_that_is_lost_is_a_change_of_the_whole(tmp_path: Path) -> None:
    before, after = written(tmp_path, HOLDING, OTHER), save(tmp_path / "cells", [HOLDING])
    issue = str(tmp_path / "issue.md")
    assert ci("changes", str(before), str(after), "-o", issue).exit_code == 0
    assert ci("changes", str(before), str(after), "--whole", "-o", issue).exit_code == 1
    assert "Could not be judged: no job left a record of it" in Path(issue).read_text()


def test_other_cause_is_a_change_of_the_whole(tmp_path: Path) -> None:
    other = replace(BROKEN, verdicts=(verdict(), broken(Cause.NORM_EPSILON, case="two_layers")))
    before, after = written(tmp_path, BROKEN), save(tmp_path / "cells", [other])
    issue = str(tmp_path / "issue.md")
    assert ci("changes", str(before), str(after), "-o", issue).exit_code == 0  # it counts the same
    assert ci("changes", str(before), str(after), "--whole", "-o", issue).exit_code == 1
    assert "-| norm-differs | two_layers |" in Path(issue).read_text()


def test_cell_that_could_not_be_judged_is_a_change(tmp_path: Path) -> None:
    lost = replace(HOLDING, verdicts=(), unavailable="no such release")
    text = difference.issue(difference.changed({HOLDING.pair: ". 2/2"}, [lost]))
    assert "| . 2/2 | E |" in text
    assert "Could not be judged: no such release" in text


@pytest.mark.parametrize("content", [None, "words", b"\xff"])
def test_file_that_is_no_matrix(tmp_path: Path, content: str | bytes | None) -> None:
    file = tmp_path / "matrix.md"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = ci("changes", str(file), str(save(tmp_path / "cells", [HOLDING])))
    assert result.exit_code == 2
    assert str(file) in result.stderr
