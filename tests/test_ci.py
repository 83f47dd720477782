"""What CI systems are given: environments of tox, requirements, workflows."""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from typer.testing import CliRunner

from contracts.cli import app
from contracts.records import catalog

ROOT = Path(__file__).parent.parent
REQUIREMENTS = ROOT / "contracts" / "requirements"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def pins(name: str) -> dict[str, str]:
    lines = (REQUIREMENTS / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def tox() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini", encoding="utf-8")
    return parser


def workflow(file: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return loaded


def test_tox_has_an_environment_for_every_pair() -> None:
    (name,) = [section for section in tox().sections() if section.startswith("testenv:contracts-{")]
    training, serving = re.findall(r"\{([^}]*)\}", name)
    assert training.split(",") == list(catalog("speculators").matrix)
    assert serving.split(",") == list(catalog("sglang").matrix)
    settings = tox()[name]["set_env"]
    for side, library in (("TRAINING", "speculators"), ("SERVING", "sglang")):
        for release in catalog(library).matrix:
            assert f"{release}: CONTRACTS_{side}_PYTHON = {library}=={release}" in settings.splitlines()


def test_runner_has_the_pins_of_the_full_environment_and_all_that_this_package_needs() -> None:
    runner, full = pins("runner.txt"), pins("cpu.txt")
    assert runner.items() <= full.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {Requirement(line).name for line in project["dependencies"]}
    assert needed - runner.keys() == {"torch"}  # each side brings its own


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflow_has_least_permissions_and_limits(file: Path) -> None:
    loaded = workflow(file)
    assert loaded["permissions"] == {"contents": "read"}
    for job in loaded["jobs"].values():
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_steps_of_workflows_are_commands_that_there_are(file: Path) -> None:
    for job in workflow(file)["jobs"].values():
        for step in job["steps"]:
            for words in re.findall(r"contracts [a-z]+(?: [^)>]*)?", step.get("run", "")):
                command, *options = [word for word in shlex.split(words) if word][1:]
                told = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
                for option in options:
                    if option.startswith("--"):
                        assert option in told


def test_environments_of_tox_that_ci_runs_are_there() -> None:
    listed = set(re.split(r"[,\s]+", tox()["tox"]["env_list"]))
    asked = re.findall(r"for environment in (.*); do", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    ci = workflow(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["tox"]["strategy"]["matrix"]
    assert set(asked[0].split()) == set(ci["environment"]) == listed


def test_matrix_runs_one_job_and_leaves_one_artifact_a_cell() -> None:
    jobs = workflow(ROOT / ".github" / "workflows" / "matrix.yml")["jobs"]
    cell = jobs["cell"]
    assert cell["strategy"]["matrix"]["pair"] == "${{ fromJSON(needs.plan.outputs.pairs) }}"
    assert cell["strategy"]["fail-fast"] is False
    (upload,) = [step for step in cell["steps"] if "upload-artifact" in step.get("uses", "")]
    assert "matrix.pair.training" in upload["with"]["name"]
    assert jobs["page"]["needs"] == ["plan", "cell"]
