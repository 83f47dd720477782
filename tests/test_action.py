"""The action, run step by step as a runner would, in a repository like the one under examples/."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checking import faulty, good

ROOT = Path(__file__).parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
EXAMPLE = ROOT / "examples" / "draft-repository"
WORKFLOW: dict[str, Any] = yaml.safe_load(
    (EXAMPLE / ".github" / "workflows" / "draft.yml").read_text(encoding="utf-8")
)
(USE,) = [step for step in WORKFLOW["jobs"]["contracts"]["steps"] if step.get("id") == "contracts"]


class Runner:
    """What of GitHub's runner a composite action sees."""

    def __init__(self, workspace: Path, temporary: Path) -> None:
        self.workspace, self.temporary = workspace, temporary
        temporary.mkdir(exist_ok=True)
        self.log = ""

    def run(self, given: Mapping[str, str], *steps: str) -> int:
        """Run the action's steps of these names; the exit status of the one that failed, or 0."""
        inputs = {name: given.get(name, str(it.get("default", ""))) for name, it in ACTION["inputs"].items()}
        for step in ACTION["runs"]["steps"]:
            if step["name"] not in steps:
                continue
            environment = {name: self._filled(value, inputs) for name, value in step["env"].items()}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.workspace,
                env={
                    **os.environ,
                    **environment,
                    "RUNNER_TEMP": str(self.temporary),
                    "GITHUB_OUTPUT": str(self.temporary / "output"),
                    "GITHUB_STEP_SUMMARY": str(self.temporary / "summary.md"),
                },
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            self.log += done.stdout + done.stderr
            if done.returncode:
                return done.returncode
        return 0

    def _filled(self, value: str, inputs: Mapping[str, str]) -> str:
        """An expression of GitHub's, as far as this action uses them."""

        def of(match: re.Match[str]) -> str:
            name = match[1].strip()
            return str(ROOT) if name == "github.action_path" else inputs[name.removeprefix("inputs.")]

        return re.sub(r"\$\{\{(.*?)\}\}", of, value)

    @property
    def outputs(self) -> dict[str, str]:
        """What the steps said."""
        lines = (self.temporary / "output").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a runner in which the action's step has installed what it needs."""
    place = tmp_path_factory.mktemp("runner")
    runner = Runner(ROOT, place)
    assert runner.run({"draft": "x"}, "Install") == 0, runner.log
    return place


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The example, with a draft in it that is good."""
    shutil.copytree(EXAMPLE, tmp_path / "repository")
    return tmp_path / "repository"


def hold(repository: Path, draft: str, target: str) -> None:
    """Put a draft and its target where the example has them."""
    (repository / "drafts").mkdir(exist_ok=True)
    shutil.copytree(draft, repository / "drafts" / "mine", dirs_exist_ok=True)
    shutil.copytree(target, repository / "target", dirs_exist_ok=True)


@pytest.fixture
def runner(repository: Path, installed: Path, tmp_path: Path) -> Runner:
    runner = Runner(repository, tmp_path / "temporary")
    (tmp_path / "temporary" / "draft-contracts").symlink_to(installed / "draft-contracts")
    return runner


def test_good_draft_of_the_example_passes(runner: Runner, repository: Path, tmp_path: Path) -> None:
    hold(repository, *good(tmp_path / "made"))
    assert runner.run(USE["with"], "Judge") == 0, runner.log
    assert runner.outputs["verdict"] == "compatible"
    assert Path(runner.outputs["report"]).read_text().startswith("{\n")
    summary = (runner.temporary / "summary.md").read_text()
    assert "accepts" in summary
    assert "compatible" in summary


def test_faulty_draft_is_annotated_and_fails(runner: Runner, repository: Path, tmp_path: Path) -> None:
    hold(repository, *faulty(tmp_path / "made", "map_of_ids"))
    assert runner.run(USE["with"], "Judge") == 1
    assert runner.outputs["verdict"] == "broken"
    assert "::error" in runner.log
    assert "d2t-holds-ids" in runner.log


def test_policy_of_its_own_may_be_left_out(runner: Runner, repository: Path, tmp_path: Path) -> None:
    hold(repository, *good(tmp_path / "made"))
    given = USE["with"] | {"policy": "", "target": ""}
    assert runner.run(given, "Judge") == 2  # what needs a target was not judged
    assert runner.outputs["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"draft": "drafts/none"}, "drafts/none"),
        ({"policy": "none.toml"}, "--policy none.toml: no such file"),
        ({"serving": "sglang==banana"}, "banana"),
        ({"draft": "drafts/mine; touch taken"}, "taken"),
    ],
)
def test_bad_input_is_an_error_of_the_step(
    runner: Runner, repository: Path, tmp_path: Path, change: dict[str, str], says: str
) -> None:
    hold(repository, *good(tmp_path / "made"))
    assert runner.run(USE["with"] | change, "Judge") == 2
    assert runner.outputs["verdict"] == "unknown"
    assert says in runner.log
    assert "Traceback" not in runner.log
    assert not (repository / "taken").exists()


@pytest.fixture
def with_gpu(repository: Path, tmp_path: Path) -> Runner:
    """A runner whose `contracts` finds every draft good, and notes how a server would be launched."""
    runner = Runner(repository, tmp_path / "temporary")
    place = tmp_path / "temporary" / "draft-contracts" / "bin"
    place.mkdir(parents=True)
    (place / "contracts").write_text(
        f"""#!/bin/sh
case $1 in
    check) echo "{{" ;;
    gate) echo compatible ;;
    acceptance) printf '%s\\n' "$@" > {tmp_path}/asked; exit $(cat {tmp_path}/status) ;;
esac
"""
    )
    (place / "contracts").chmod(0o755)
    return runner


GPU = {"tier": "gpu", "draft": "my draft", "target": "org/target", "training-log": "metrics.json"}


@pytest.mark.parametrize(("status", "verdict"), [(0, "compatible"), (1, "broken"), (2, "unknown")])
def test_tier_gpu_is_judged_by_the_accept_length(
    with_gpu: Runner, tmp_path: Path, status: int, verdict: str
) -> None:
    (tmp_path / "status").write_text(str(status))
    assert with_gpu.run(GPU, "Judge") == status
    assert with_gpu.outputs["verdict"] == verdict
    command, option, log, launch, server = (tmp_path / "asked").read_text().splitlines()
    assert (command, option, log, launch) == ("acceptance", "--training-log", "metrics.json", "--launch")
    words = shlex.split(server)
    assert words[words.index("--speculative-draft-model-path") + 1] == "my draft"
    assert words[:5] == ["python3", "-m", "sglang.launch_server", "--model-path", "org/target"]


@pytest.mark.parametrize("missing", ["target", "training-log"])
def test_tier_gpu_that_nothing_can_be_held_to_is_unknown(with_gpu: Runner, missing: str) -> None:
    assert with_gpu.run(GPU | {missing: ""}, "Judge") == 2
    assert with_gpu.outputs["verdict"] == "unknown"
    assert "::error::tier gpu serves the draft: give target, and training-log" in with_gpu.log


def test_tier_that_there_is_not(tmp_path: Path) -> None:
    runner = Runner(ROOT, tmp_path / "temporary")
    assert runner.run({"draft": "x", "tier": "tpu"}, "Install") == 2
    assert "::error::tier: tpu is none of header, cpu, gpu" in runner.log


def test_outputs_are_those_of_a_step() -> None:
    for output in ACTION["outputs"].values():
        (step, name) = re.findall(r"steps\.(\w+)\.outputs\.(\w+)", output["value"])[0]
        (found,) = [it for it in ACTION["runs"]["steps"] if it.get("id") == step]
        script = (ROOT / ".github" / "action" / "judge").read_text(encoding="utf-8")
        assert "action/judge" in found["run"]
        assert f"{name}=" in script


def test_example_gives_inputs_that_there_are() -> None:
    assert USE["with"].keys() <= ACTION["inputs"].keys()
    assert (EXAMPLE / USE["with"]["policy"]).is_file()
