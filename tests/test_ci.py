"""What CI systems are given: environments of tox, requirements, workflows."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
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
SCRIPTS = ROOT / ".github"
EXAMPLE = ROOT / "examples" / "draft-repository" / ".github" / "workflows" / "draft.yml"
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


def jobs(file: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = workflow(file)["jobs"]
    return found


def steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(file).values() for step in job["steps"]]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflow_has_least_permissions_and_limits(file: Path) -> None:
    loaded = workflow(file)
    assert loaded["permissions"] in ({}, {"contents": "read"})
    assert loaded["concurrency"]["group"]
    for name, job in loaded["jobs"].items():
        assert job["timeout-minutes"] <= 180
        writes = {scope for scope, level in job.get("permissions", {}).items() if level == "write"}
        assert writes <= {("gpu", "patience"): {"actions"}, ("release", "publish"): {"contents"}}.get(
            (file.stem, name), set()
        )
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)


@pytest.mark.parametrize("file", [*WORKFLOWS, EXAMPLE], ids=lambda file: file.name)
def test_actions_of_others_are_pinned_by_commit_and_keep_no_credentials(file: Path) -> None:
    for step in steps(file):
        action, _, version = step.get("uses", "").partition("@")
        if not action or action.startswith("OWNER/"):
            continue
        assert re.fullmatch("[0-9a-f]{40}", version), step
        if action == "actions/checkout":
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("file", [*WORKFLOWS, EXAMPLE], ids=lambda file: file.name)
def test_pull_requests_meet_no_secret_and_no_runner_of_ones_own(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert "secrets." not in text
    assert "pull_request_target" not in text
    on = workflow(file)[True]  # YAML 1.1 takes the key `on` for that
    if "pull_request" in on:
        assert all(job["runs-on"] == "ubuntu-24.04" for job in jobs(file).values())


@pytest.mark.parametrize("file", [*WORKFLOWS, ROOT / "action.yml"], ids=lambda file: file.name)
def test_steps_are_commands_that_there_are(file: Path) -> None:
    loaded = workflow(file)
    every = loaded["runs"]["steps"] if "runs" in loaded else steps(file)
    scripts = [
        (SCRIPTS / name).read_text(encoding="utf-8")
        for name in ("action/judge", "steps/plan", "steps/try-wheel")
    ]
    for text in [step.get("run", "") for step in every] + scripts:
        for script in re.findall(r"\.github/(?:steps|action)/[\w-]+", text):
            assert os.access(ROOT / script, os.X_OK), script
        for words in re.findall(r"(?<![\w/-])contracts [a-z]+(?: [^)>|\n{]*)?", text):
            named = [word for word in shlex.split(words.replace('"', "")) if word][1:]
            command = named[:2] if named[0] == "ci" else named[:1]
            told = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
            assert told.exit_code == 0, words
            for option in named:
                if option.startswith("--"):
                    assert option.partition("=")[0] in told.output, words


def test_environments_of_tox_that_ci_runs_are_there() -> None:
    listed = set(re.split(r"[,\s]+", tox()["tox"]["env_list"]))
    told = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (asked,) = re.findall(r"for environment in (.*); do", told)
    ci = jobs(WORKFLOWS[0])["tox"]["strategy"]["matrix"]
    assert {*asked.split(), "server"} == set(ci["environment"]) == listed
    server = tox()["testenv:server"]["commands"].strip().removesuffix(" {posargs}")
    assert server in told


def test_one_job_stands_for_all_that_a_pull_request_has_to_pass() -> None:
    every = jobs(ROOT / ".github" / "workflows" / "ci.yml")
    required = every["required"]
    assert set(required["needs"]) == every.keys() - {"required"}
    assert required["if"] == "${{ always() }}"  # a job that is skipped counts as passed
    (step,) = required["steps"]
    for results, status in (
        ("success success success success", 0),
        ("success skipped success success", 1),
        ("failure", 1),
    ):
        done = subprocess.run(
            ["bash", "-ec", step["run"]], env={**os.environ, "RESULTS": results}, check=False
        )
        assert done.returncode == status, results


@pytest.mark.parametrize("name", ["ci", "nightly", "gpu"])
def test_matrix_is_the_plans_and_leaves_one_artifact_a_cell(name: str) -> None:
    every = jobs(ROOT / ".github" / "workflows" / f"{name}.yml")
    cell = every["cell"]
    assert cell["strategy"]["matrix"]["pair"] == "${{ fromJSON(needs.plan.outputs.cells) }}"
    assert cell["strategy"]["fail-fast"] is False
    (upload,) = [step for step in cell["steps"] if "upload-artifact" in step.get("uses", "")]
    assert "matrix.pair.training" in upload["with"]["name"]
    assert "matrix.pair.serving" in upload["with"]["name"]
    merging = [
        step["run"]
        for step in steps(ROOT / ".github" / "workflows" / f"{name}.yml")
        if "--merge" in step.get("run", "")
    ]
    assert len(merging) == 1


def test_gpu_runner_is_named_by_a_variable_and_has_its_limits() -> None:
    every = jobs(ROOT / ".github" / "workflows" / "gpu.yml")
    assert every["cell"]["runs-on"] == "${{ fromJSON(vars.GPU_RUNNER) }}"
    assert every["cell"]["needs"] == "plan"
    assert every["cell"]["name"].endswith("(GPU)")  # as the script that waits for a runner finds it
    assert every["merge"]["needs"] == ["plan", "cell"]


# -------------------------------------------------------------------- steps, run as a workflow runs them


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def with_contracts(folder: Path) -> str:
    """A PATH on which `contracts` and `python` are those of the tests."""
    folder.mkdir(exist_ok=True)
    for name, command in (("contracts", '-m contracts "$@"'), ("python", '"$@"')):
        (folder / name).write_text(f"#!/bin/sh\nexec {sys.executable} {command}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_plan_is_a_line_for_the_outputs_of_a_job(tmp_path: Path) -> None:
    shutil.copytree(SCRIPTS / "steps", tmp_path / "steps")
    done = subprocess.run(
        [str(SCRIPTS / "steps" / "plan"), "newest", "gpu"],
        cwd=tmp_path,
        env={**os.environ, "PATH": with_contracts(tmp_path / "bin")},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    name, _, cells = line.partition("=")
    assert name == "cells"
    newest = {"training": catalog("speculators").matrix[-1], "serving": catalog("sglang").matrix[-1]}
    assert json.loads(cells)[0] == newest


@pytest.mark.parametrize(
    ("labels", "status"), [('["self-hosted", "gpu"]', 0), ("", 1), ("gpu", 1), ("[]", 1), ('"gpu"', 1)]
)
def test_runner_without_a_label_is_told_in_one_line(tmp_path: Path, labels: str, status: int) -> None:
    path = with_contracts(tmp_path / "bin")
    done = run(str(SCRIPTS / "steps" / "runner-is-named"), GPU_RUNNER=labels, PATH=path)
    assert done.returncode == status
    assert done.stdout.count("\n") == status
    assert ("::error::GPU_RUNNER: set this variable" in done.stdout) is bool(status)


def fake_gh(folder: Path, status: str) -> str:
    """A `gh` of whose run the job on a GPU has this status, and that notes what it is told to cancel."""
    folder.mkdir()
    every = [{"name": "plan", "status": "completed"}, {"name": "a pair (GPU)", "status": status}]
    (folder / "jobs").write_text(json.dumps({"jobs": every}))
    script = (
        f'#!/bin/sh\ncase "$2" in view) cat {folder}/jobs ;; cancel) echo "$3" > {folder}/cancelled ;; esac\n'
    )
    (folder / "gh").write_text(script)
    (folder / "gh").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize("status", ["queued", "waiting", "pending"])
def test_run_that_no_runner_takes_is_ended(tmp_path: Path, status: str) -> None:
    path = fake_gh(tmp_path / "bin", status)
    done = run(str(SCRIPTS / "steps" / "end-if-no-runner-comes"), "123", "1", PATH=path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "waiting for a runner with the labels in GPU_RUNNER, 0 s of 1 s"
    assert "::error::no runner with the labels in GPU_RUNNER took the job within 1 s" in done.stdout
    assert (tmp_path / "bin" / "cancelled").read_text() == "123\n"


def test_run_that_a_runner_takes_goes_on(tmp_path: Path) -> None:
    path = fake_gh(tmp_path / "bin", "in_progress")
    done = run(str(SCRIPTS / "steps" / "end-if-no-runner-comes"), "123", "1", PATH=path)
    assert (done.returncode, done.stdout) == (0, "a runner has taken the job after 0 s\n")


@pytest.mark.parametrize(("status", "passes"), [(0, True), (1, True), (2, False), (3, True), (130, False)])
def test_statuses_that_are_no_failure_are_allowed(status: int, passes: bool) -> None:
    done = run(str(SCRIPTS / "steps" / "allowing"), "1 3", "bash", "-c", f"exit {status}")
    assert done.returncode == (0 if passes else status)


# ------------------------------------------------------------------------------------ clusters


def test_slurm_starts_one_array_a_stage_and_then_the_merge(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$*" >> {tmp_path}/asked\necho "$(wc -l < {tmp_path}/asked);cluster"\n'
    )
    sbatch.chmod(0o755)
    plan = tmp_path / "plan.json"
    plan.write_text(CliRunner().invoke(app, ["ci", "plan", "--pairs", "all"]).stdout)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = run(str(ROOT / "examples" / "cluster" / "slurm.sh"), str(plan), str(tmp_path), PATH=path)
    assert done.returncode == 0, done.stderr
    training, serving, merge = (tmp_path / "asked").read_text().splitlines()
    assert f"--array=0-{len(catalog('speculators').matrix) - 1} " in training
    assert "--stage training --index $SLURM_ARRAY_TASK_ID" in training
    assert f"--array=0-{len(catalog('sglang').matrix) - 1} " in serving
    assert "--dependency=afterany:1 " in serving
    assert "--dependency=afterany:2 " in merge
    assert f"contracts matrix --merge {tmp_path}/part-2-* -o {tmp_path}/page" in merge


def test_jobs_of_kubernetes_are_indexed_and_end() -> None:
    text = (ROOT / "examples" / "cluster" / "kubernetes.yaml").read_text(encoding="utf-8")
    for job in yaml.safe_load_all(text):
        spec = job["spec"]
        assert (job["apiVersion"], job["kind"], spec["completionMode"]) == ("batch/v1", "Job", "Indexed")
        assert spec["activeDeadlineSeconds"] <= 7200
        (container,) = spec["template"]["spec"]["containers"]
        words = container["command"][-1]
        assert f"contracts ci run /plan/plan.json --stage {job['metadata']['labels']['stage']}" in words
        assert "$JOB_COMPLETION_INDEX" in words


# ----------------------------------------------------------------------------------- containers


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_base_of_a_container_is_pinned_and_what_is_copied_is_there(name: str) -> None:
    lines = (ROOT / "docker" / f"{name}.Dockerfile").read_text(encoding="utf-8").splitlines()
    assert re.search(r"^FROM \S+@sha256:[0-9a-f]{64}$", "\n".join(lines), re.MULTILINE)
    for line in lines:
        if line.startswith("COPY "):
            assert all((ROOT / source).exists() for source in line.split()[1:-1]), line
