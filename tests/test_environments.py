"""Environments of releases: made whole or not at all, found again, listed, checked and removed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from contracts import environments
from contracts.cli import app
from contracts.environments import Environment, NotProvisioned, find, provision
from contracts.installer import InstallFailed
from contracts.wanted import Wanted
from tests.fake_uv import asked, fake_uv, first_on_path

OLD = Wanted.parse("sglang==0.5.9")
INDEX: dict[str, dict[str, object]] = {
    "sglang==0.5.9": {
        "version": "0.5.9",
        "requires": ["torch==2.9.1", "transformers==4.57.1", "outlines==0.1.11", 'uvloop; extra == "all"'],
    },
    "transformers==4.57.1": {"version": "4.57.1", "requires": ["tokenizers<=0.23.0,>=0.22.0", "numpy>=1.17"]},
    "tokenizers<=0.23.0,>=0.22.0": {"version": "0.22.2", "requires": []},
    "sglang==0.5.99": {
        "version": "",
        "fails": "\u00d7 No solution found:\n \u2570 Because there is no version of sglang==0.5.99 ...",
    },
    "sglang==0.5.98": {"version": "", "fails": "OSError: [Errno 28] No space left on device"},
    "sglang==0.5.97": {"version": "", "fails": "error: Failed to fetch: `https://index/sglang/`"},
    "sglang==0.5.96": {"version": "", "fails": "has no wheels with a matching Python ABI tag"},
}


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    script = fake_uv(tmp_path / "uv", INDEX)
    monkeypatch.setenv("PATH", first_on_path(script))
    return script


@pytest.fixture
def below(tmp_path: Path, uv: Path) -> str:
    """An environment with a torch and a transformers to lie under the overlays."""
    folder = tmp_path / "below"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    for requirement in ("torch==2.13.0", "transformers==5.19.0", "tokenizers==0.23.2", "numpy==2.4.6"):
        subprocess.run([uv, "pip", "install", "--python", python, requirement], check=True)
    return str(python)


def versions(python: str) -> dict[str, str]:
    """What an interpreter finds."""
    names = ("torch", "transformers", "tokenizers", "numpy", "sglang")
    code = f"import json, importlib.metadata as m; print(json.dumps({{n: m.version(n) for n in {names}}}))"
    return json.loads(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout)


def test_overlay_has_its_own_pins_over_what_is_shared(tmp_path: Path, below: str) -> None:
    made = provision(OLD, tmp_path / "cache", over=below)
    assert versions(made.python) == {
        "torch": "2.13.0", "numpy": "2.4.6", "sglang": "0.5.9",
        "transformers": "4.57.1", "tokenizers": "0.22.2",
    }  # fmt: skip
    assert made.off_pin == {"torch": ("==2.9.1", "2.13.0")}
    assert find(OLD, tmp_path / "cache") == made


def test_only_pins_that_matter_are_met(tmp_path: Path, below: str, uv: Path) -> None:
    provision(OLD, tmp_path / "cache", over=below)
    told = {word for call in asked(uv) for word in call}
    assert not any("outlines" in word or "uvloop" in word for word in told)


def test_exact_has_everything_of_its_own(tmp_path: Path, uv: Path) -> None:
    made = provision(OLD, tmp_path / "cache", exact=True)
    assert made.exact
    assert made.shared is None
    assert "--no-deps" not in asked(uv)[-1]
    assert find(OLD, tmp_path / "cache") == made  # an exact one is found before an overlay


def test_shared_packages_are_installed_once_and_hold_neither_library(tmp_path: Path, uv: Path) -> None:
    cache = tmp_path / "cache"
    one = provision(OLD, cache)
    calls = len(asked(uv))
    other = provision(Wanted.parse("speculators==0.9.0"), cache)
    assert one.shared == other.shared
    assert [call[-1] for call in asked(uv)[calls:]] == ["speculators==0.9.0"]
    names = {
        entry.name.partition("-")[0] for entry in Path(str(one.shared)).parents[1].glob("lib/*/*/*.dist-info")
    }
    assert {"torch", "transformers"} <= names
    assert not names & {"sglang", "speculators"}


def test_second_time_costs_nothing(tmp_path: Path, below: str, uv: Path) -> None:
    first = provision(OLD, tmp_path / "cache", over=below)
    calls = len(asked(uv))
    assert provision(OLD, tmp_path / "cache", over=below) == first
    assert len(asked(uv)) == calls


def test_source_tree_is_installed_anew_each_time(tmp_path: Path, below: str, uv: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "pyproject.toml").write_text("")
    tree = Wanted.parse(f"sglang@{tmp_path / 'tree'}")
    provision(tree, tmp_path / "cache", over=below)
    calls = len(asked(uv))
    provision(tree, tmp_path / "cache", over=below)
    assert len(asked(uv)) > calls


def test_source_tree_that_changed_since_is_no_side(tmp_path: Path, below: str) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "pyproject.toml").write_text("")
    tree = Wanted.parse(f"sglang@{tmp_path / 'tree'}")
    made = provision(tree, tmp_path / "cache", over=below)
    assert find(tree, tmp_path / "cache") == made
    (tmp_path / "tree" / "new.py").write_text("")
    with pytest.raises(NotProvisioned, match="changed since it was installed"):
        find(tree, tmp_path / "cache")


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("0.5.99", "there is no such release"),
        ("0.5.98", "the disk is full"),
        ("0.5.97", "the package index cannot be reached"),
        ("0.5.96", "it has no wheel for this Python"),
    ],
)
def test_failure_is_one_line_and_leaves_nothing(tmp_path: Path, below: str, release: str, said: str) -> None:
    with pytest.raises(InstallFailed) as raised:
        provision(Wanted.parse(f"sglang=={release}"), tmp_path / "cache", over=below)
    assert said in str(raised.value)
    assert f"sglang=={release}" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert list(environments.environments(tmp_path / "cache")) == []


def test_half_made_environment_is_no_environment_and_is_made_again(tmp_path: Path, below: str) -> None:
    cache = tmp_path / "cache"
    made = provision(OLD, cache, over=below)
    shutil.rmtree(next(made.folder.glob("lib/*/site-packages/transformers")))
    assert Environment.read(made.folder) is None
    again = provision(OLD, cache, over=below)
    assert versions(again.python)["transformers"] == "4.57.1"


def test_environment_whose_shared_packages_went_is_none(tmp_path: Path, below: str) -> None:
    made = provision(OLD, tmp_path / "cache", over=below)
    Path(below).unlink()
    assert Environment.read(made.folder) is None


def test_two_at_once_make_it_once(tmp_path: Path, below: str, uv: Path) -> None:
    found: list[Environment] = []
    workers = [
        threading.Thread(target=lambda: found.append(provision(OLD, tmp_path / "cache", over=below)))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 2
    assert sum(call[-1] == "sglang==0.5.9" for call in asked(uv)) == 1


def test_checksums_find_what_sizes_do_not(tmp_path: Path, below: str) -> None:
    made = provision(OLD, tmp_path / "cache", over=below)
    assert environments.damaged_files(made) == []
    next(made.folder.glob("lib/*/site-packages/sglang/__init__.py")).write_text("tampered")
    assert environments.damaged_files(made) == ["sglang/__init__.py"]


def test_prune_keeps_what_is_used_and_its_shared_packages(tmp_path: Path, uv: Path) -> None:
    cache = tmp_path / "cache"
    kept, old = provision(OLD, cache), provision(Wanted.parse("speculators==0.9.0"), cache)
    (environments.root(cache) / "sglang-0.5.8").mkdir()  # half made
    (environments.root(cache) / "production").mkdir()  # somebody else's
    os.utime(old.folder / environments.RECORD, (0, 0))
    removed = {folder.name for folder, _ in environments.prune(cache)}
    assert removed == {"speculators-0.9.0", "sglang-0.5.8"}
    assert Environment.read(kept.folder) is not None
    os.utime(Path(str(kept.shared)).parent.parent / environments.RECORD, (0, 0))
    assert environments.prune(cache) == []  # old, and in use
    assert len(environments.prune(cache, everything=True)) == 2
    assert [entry.name for entry in environments.root(cache).iterdir() if entry.is_dir()] == ["production"]


# ------------------------------------------------------------------------ the command


def command(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["provision", *words])
    return result.exit_code, result.output


def test_command_goes_on_after_a_failure_and_says_so(tmp_path: Path, below: str) -> None:
    status, output = command(
        "sglang==0.5.99", "sglang==0.5.9", "--over", below, "--cache", str(tmp_path / "c")
    )
    assert status == 1
    assert "there is no such release" in output
    assert str(tmp_path / "c" / "environments" / "sglang-0.5.9") in output
    assert "torch is 2.13.0 (the release asks for ==2.9.1)" in output


def test_command_lists_verifies_and_prunes(tmp_path: Path, below: str) -> None:
    cache = str(tmp_path / "c")
    command("sglang==0.5.9", "--over", below, "--cache", cache)
    status, output = command("--list", "--verify", "--cache", cache)
    assert status == 0
    assert "overlay" in output
    assert "sound" in output
    next((tmp_path / "c").glob("environments/*/lib/*/site-packages/sglang/__init__.py")).unlink()
    assert command("--verify", "--cache", cache)[0] == 1
    assert "removed sglang-0.5.9" in command("--prune", "--cache", cache)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a release"),
        (("vllm==1",), "vllm is none of"),
        (("sglang==0.5.9", "--over", "/nowhere"), "there is no /nowhere"),
        (("sglang==0.5.9", "--exact", "--over", sys.executable), "give one"),
    ],
)
def test_command_refuses_bad_input(words: tuple[str, ...], said: str) -> None:
    status, output = command(*words)
    assert status == 2
    assert said in output
    assert "Traceback" not in output


def test_no_installer_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = fake_command(tmp_path / "bin" / "python", "import sys; sys.exit(1)")
    monkeypatch.setattr("contracts.installer.sys.executable", str(python))
    monkeypatch.setattr("contracts.installer.shutil.which", lambda *_, **__: None)
    with pytest.raises(InstallFailed, match="neither uv nor pip is here"):
        environments.install(tmp_path / "python", ["sglang==0.5.9"], "sglang==0.5.9")


def test_pip_where_there_is_no_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = fake_command(
        tmp_path / "bin" / "python",
        "import sys, pathlib; pathlib.Path(sys.argv[0] + '.asked').write_text(str(sys.argv))",
    )
    monkeypatch.setattr("contracts.installer.sys.executable", str(python))
    monkeypatch.setattr("contracts.installer.shutil.which", lambda *_, **__: None)
    environments.install(tmp_path / "side", ["--no-deps", "sglang==0.5.9"], "sglang==0.5.9")
    asked_of_pip = Path(f"{python}.asked").read_text()
    for word in ("'pip'", f"'--python', '{tmp_path / 'side'}', 'install'", "'--no-deps', 'sglang==0.5.9'"):
        assert word in asked_of_pip


def fake_command(file: Path, code: str) -> Path:
    file.parent.mkdir(parents=True)
    file.write_text(f"#!{sys.executable}\n{code}\n")
    file.chmod(0o755)
    return file


def test_scripts_of_an_environment_run(tmp_path: Path, below: str) -> None:
    made = provision(OLD, tmp_path / "cache", over=below)
    assert "sglang-0.5.9" in (made.folder / "bin" / "activate").read_text()
    assert ".partial" not in (made.folder / "bin" / "activate").read_text()


def test_environment_over_another_interpreter_is_another_one(tmp_path: Path, below: str) -> None:
    cache = tmp_path / "cache"
    over, default = provision(OLD, cache, over=below), provision(OLD, cache)
    assert over.folder != default.folder
    assert over.shared != default.shared
    assert find(OLD, cache) == default


def test_package_that_is_required_from_a_url(tmp_path: Path, below: str, uv: Path) -> None:
    index = json.loads((uv.parent / "index.json").read_text())
    index["sglang==0.5.9"]["requires"] = ["transformers @ git+https://host/transformers@branch"]
    (uv.parent / "index.json").write_text(json.dumps(index))
    provision(OLD, tmp_path / "cache", over=below)
    assert any("transformers @ git+https://host/transformers@branch" in call for call in asked(uv))


def test_remains_of_a_package_without_a_name(tmp_path: Path, below: str) -> None:
    site = next(Path(below).parents[1].glob("lib/*/site-packages"))
    (site / "remains-1.0.dist-info").mkdir()
    assert provision(OLD, tmp_path / "cache", over=below).version == "0.5.9"
