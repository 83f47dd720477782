"""Where `contracts export` writes: as a whole or not at all, and never over what is not its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contracts import tensor_copy
from contracts.terminal import EXIT_BAD_INPUT, EXIT_INTERRUPTED
from tests.exporting import nothing_left, one_line, run
from tests.facts import save_draft


def test_output_that_is_there_is_left_alone(draft: Path, target: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    assert "already there" in one_line(run("export", draft, "-o", out))
    (out / "thesis.txt").write_text("ten years")
    for name in ("config.json", "model.safetensors"):
        (out / name).write_text("{}")
        assert "no earlier export" in one_line(run("export", draft, "-o", out, "--overwrite"))
    (out / "thesis.txt").unlink()
    assert "no earlier export" in one_line(run("export", draft, "-o", out, "--overwrite"))
    assert sorted(file.name for file in out.iterdir()) == ["config.json", "model.safetensors"]
    (tmp_path / "link").symlink_to(out)
    (tmp_path / "file").write_text("")
    for name in ("link", "file"):
        for more in ((), ("--overwrite",)):
            assert "is no folder" in one_line(run("export", draft, "-o", tmp_path / name, *more))
    assert "file: is no folder" in one_line(run("export", draft, "-o", tmp_path / "file" / "out"))


@pytest.mark.parametrize("place", ["draft", "target", "."])
def test_output_that_holds_draft_or_target_is_refused(
    draft: Path, target: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    line = one_line(run("export", "draft", "--target", "target", "-o", place, "--overwrite"))
    assert "is or holds the folder of the" in line
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("options", [(), ("--overwrite",)])
def test_output_that_appears_meanwhile_is_left_alone(
    draft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], earlier: bool
) -> None:
    out, copy = tmp_path / "out", tensor_copy.copy
    if earlier and options:
        assert run("export", draft, "-o", out).exit_code == 0

    def slowly(*arguments: Any) -> None:
        copy(*arguments)
        out.mkdir(exist_ok=True)
        (out / "mine").write_text("kept")

    monkeypatch.setattr(tensor_copy, "copy", slowly)
    assert "it is left alone" in one_line(run("export", draft, "-o", out, *options))
    assert (out / "mine").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_export_that_cannot_take_its_place_leaves_the_earlier_one(
    draft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, rename = tmp_path / "out", Path.rename
    assert run("export", draft, "-o", out).exit_code == 0
    before = {file.name: file.read_bytes() for file in out.iterdir()}

    def failing(self: Path, target: Path) -> Path:
        if self.name.endswith(".partial"):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    assert "Input/output error" in one_line(run("export", draft, "-o", out, "--overwrite"))
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_overwrite_replaces_an_earlier_export_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    forced = save_draft(tmp_path / "draft", norm_before_residual=True)
    assert run("export", forced, "-o", out, "--force").exit_code == 0
    shutil.rmtree(forced)
    assert run("export", save_draft(forced), "-o", out, "--overwrite").exit_code == 0
    assert not json.loads((out / "config.json").read_text())["norm_before_residual"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["draft", "out"]


def test_release_that_is_not_recorded_is_told(draft: Path, tmp_path: Path) -> None:
    result = run("export", draft, "--for", "sglang==9.9.9", "-o", tmp_path / "out")
    assert result.exit_code == 0
    assert "nothing is recorded of sglang 9.9.9; taken for 0.5.23" in result.stdout


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (
            OSError(28, "No space left on device"),
            EXIT_BAD_INPUT,
            "No space left on device; nothing was written",
        ),
        (KeyboardInterrupt(), EXIT_INTERRUPTED, "interrupted; "),
    ],
)
def test_full_disk_or_interrupt_leaves_no_output(
    draft: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
    told: str,
    overwrite: bool,
) -> None:
    out = tmp_path / "out"
    if overwrite:
        assert run("export", draft, "-o", out).exit_code == 0
    before = sorted(out.rglob("*"))

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(tensor_copy, "_copy_one", fails)
    result = run("export", draft, "-o", out, *(["--overwrite"] if overwrite else []))
    assert result.exit_code == status
    assert told in result.stderr
    if told.startswith("interrupted"):
        assert ("is a whole export" if overwrite else "nothing was written") in result.stderr
    assert sorted(out.rglob("*")) == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_leaves_no_output(draft: Path, tmp_path: Path, number: signal.Signals) -> None:
    """A real process, stopped while it copies."""
    slowly = (
        "import time; from contracts import cli, tensor_copy; one = tensor_copy._copy_one\n"
        "def slow(*arguments):\n    one(*arguments); print('copied', flush=True); time.sleep(600)\n"
        "tensor_copy._copy_one = slow; cli.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", slowly, "export", str(draft), "-o", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # a shell's background job ignores SIGINT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "copied\n"
    os.kill(process.pid, number)
    _, stderr = process.communicate(timeout=60)  # well before it would have gone on by itself
    assert process.returncode == EXIT_INTERRUPTED
    assert "Traceback" not in stderr
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("moment", [0, 1])
def test_interrupt_while_folders_change_places_leaves_a_whole_one(
    draft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """A signal that arrives right after the earlier export, or the new one, got its new name."""
    out = tmp_path / "out"
    assert run("export", draft, "-o", out).exit_code == 0
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    rename, renamed = Path.rename, []

    def interrupted(path: Path, place: Path) -> Path:
        moved = rename(path, place)
        if "out" in path.name:
            renamed.append(path)
        if len(renamed) == moment + 1:
            renamed.append(path)
            raise KeyboardInterrupt
        return moved

    monkeypatch.setattr(Path, "rename", interrupted)
    result = run("export", draft, "-o", out, "--overwrite")
    assert result.exit_code == EXIT_INTERRUPTED
    assert "is a whole export" in result.stderr
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
