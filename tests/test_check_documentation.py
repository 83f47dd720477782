"""Every example of docs/check.md is run as it is written, on a draft and a target called as there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from contracts import blank
from contracts.blank import weight
from contracts.cli import app
from contracts.gate import read_policy
from tests.checking import faulty, good

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "check.md"
ACTION = ROOT / "action.yml"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
SLOW = "--deep"
"""In tests/test_deep.py."""


def blocks(kind: str) -> list[str]:
    return [content for name, content in BLOCKS if name == kind]


COMMANDS = [line for block in blocks("console") for line in block.splitlines() if SLOW not in line]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    draft, target = good(tmp_path)
    Path(draft).rename(tmp_path / "my-draft")
    Path(target).rename(tmp_path / "my-target")
    (policy,) = blocks("toml")
    (tmp_path / "policy.toml").write_text(policy)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-eu", "-c", command],
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_there_are_examples_of_each_kind() -> None:
    assert len(COMMANDS) >= 8
    assert {name for name, _ in BLOCKS} == {"console", "python", "yaml", "toml", "sh"}


@pytest.mark.parametrize("command", COMMANDS)
def test_command(folder: Path, command: str) -> None:
    if "gate report.json" in command:
        assert shell(COMMANDS[COMMANDS.index("contracts gate report.json") - 1]).returncode == 0
    done = shell(command)
    expected = 1 if "--for all" in command else 0  # no draft is accepted in full before 0.5.12
    assert done.returncode == expected, done.stdout + done.stderr


def test_python(folder: Path) -> None:
    script, in_pytest = blocks("python")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "accepts\n"), done.stderr
    (folder / "test_example.py").write_text(in_pytest)
    done = shell(
        "python -m pytest -q -p no:cacheprovider test_example.py --draft my-draft --target my-target"
    )
    assert done.returncode == 0, done.stdout


def test_policy(folder: Path) -> None:
    assert read_policy(folder / "policy.toml").must_hold == ["header.*"]


# ---------------------------------------------------------------------- the pre-commit hook


def test_hook_is_the_one_that_is_documented() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (example,) = [yaml.safe_load(block) for block in blocks("yaml") if "repos:" in block]
    (used,) = example["repos"][0]["hooks"]
    assert used["id"] == hook["id"]
    assert hook["entry"] == "contracts check-files"
    for name, matches in {
        "a/config.json": True,
        "model-00001.safetensors": True,
        "a/config.json.bak": False,
    }.items():
        assert bool(re.search(hook["files"], name)) == matches
    found = CliRunner().invoke(app, ["check-files", *used["args"], "nothing/config.json"])
    assert (found.exit_code, found.stdout) == (0, "no draft among 1 files\n")


def test_hook_judges_each_draft_once_and_leaves_other_models_out(tmp_path: Path) -> None:
    one, target = good(tmp_path / "one")
    two, _ = faulty(tmp_path / "two", "map_of_ids")
    broken = Path(good(tmp_path / "broken")[0])
    (broken / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    files = {name: f"{folder}/{name}" for folder in (one,) for name in ("config.json", "model.safetensors")}
    accepted = CliRunner().invoke(app, ["check-files", *files.values(), f"{target}/config.json", "README.md"])
    assert accepted.exit_code == 0
    assert accepted.stdout.count("accepts  ") == 1
    found = CliRunner().invoke(app, ["check-files", f"{two}/config.json", files["config.json"]])
    assert found.exit_code == 1
    unread = CliRunner().invoke(app, ["check-files", f"{broken}/config.json"])
    assert unread.exit_code == 2
    assert "a pointer of Git LFS, not the file itself" in unread.stdout


def test_hook_goes_on_after_a_config_that_cannot_be_meant(tmp_path: Path) -> None:
    odd, broken = Path(good(tmp_path / "odd")[0]), faulty(tmp_path / "broken", "map_of_ids")[0]
    text = (odd / "config.json").read_text().replace('"hidden_size": 64', '"hidden_size": "64"')
    (odd / "config.json").write_text(text)
    found = CliRunner().invoke(app, ["check-files", f"{odd}/config.json", f"{broken}/config.json"])
    assert found.exit_code == 1
    assert "d2t-holds-ids" in found.stdout


def test_hook_leaves_models_out_that_are_no_drafts(tmp_path: Path) -> None:
    models = {
        "resnet": ({"architectures": ["resnet50"]}, {"fc.weight": weight(10, 20), "conv1.weight": weight(4)}),
        "deepseek": (
            {"architectures": ["DeepseekV2ForCausalLM"]},
            {f"model.layers.{at}.self_attn.kv_a_proj_with_mqa.weight": weight(4, 8) for at in range(27)},
        ),
        "bert": ({"architectures": ["BertModel"]}, {"fc.weight": weight(8, 8)}),
    }
    for name, (config, tensors) in models.items():
        blank.write(tmp_path / name, config, tensors)
    found = CliRunner().invoke(app, ["check-files", *(f"{tmp_path / name}/config.json" for name in models)])
    assert (found.exit_code, found.stdout) == (0, "no draft among 3 files\n")


def test_hook_may_let_doubt_pass(tmp_path: Path) -> None:
    draft, _ = faulty(tmp_path, "epsilon_unsaid")
    assert CliRunner().invoke(app, ["check-files", f"{draft}/config.json"]).exit_code == 2
    assert CliRunner().invoke(app, ["check-files", "--unsure", f"{draft}/config.json"]).exit_code == 0


# ------------------------------------------------------------------------------ the action


def test_action_is_the_one_that_is_documented() -> None:
    action = yaml.safe_load(ACTION.read_text())
    (example,) = [yaml.safe_load(block) for block in blocks("yaml") if "steps:" in block]
    (used,) = [step for step in example["steps"] if step.get("id") == "contracts"]
    assert used["uses"] == "OWNER/draft-contracts@main"
    assert used["with"].keys() <= action["inputs"].keys()
    for step in action["runs"]["steps"]:
        assert "${{" not in step["run"]  # inputs come by the environment: they are words, not code
