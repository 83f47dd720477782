"""The GPU tier without a GPU: what is collected, what is left out and why, and what the probe reads then."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter
from safetensors.numpy import load_file

from contracts import gpus
from contracts.gpus import BACKENDS, NOT_JUDGED, Gpu, Machine
from contracts.settings import GPU_SETTINGS, SETTINGS, Setting
from contracts.speculation import EngineRun
from contracts.terminal import EXIT_NOT_RUN
from contracts.tiers import asks_for
from tests.bench import Bench
from tests.facts import SERVED
from tests.fake_python import ONE_GPU, fake_python, orders, runs

if TYPE_CHECKING:
    from contracts.sides import Side
    from contracts.workbench import Workbench

NO_GPU: dict[str, Any] = {"torch": "2.14.1", "gpus": [], "backends": [], "reason": "torch finds no GPU here"}


def machine(*capability: int, backends: tuple[str, ...] = ("fa3", "fa4", "triton", "trtllm_mha")) -> Machine:
    gpu = Gpu(name="a GPU", capability=(capability[0], capability[1]), memory=80 << 30)
    return Machine(gpus=(gpu,), backends=backends)


# -------------------------------------------------------------------- what is selected


def test_gpu_mark_takes_the_gpu_and_what_only_it_can_serve(bench: Bench) -> None:
    bench.serve(SERVED, machine=ONE_GPU)
    bench.run(
        "-m", "contracts and gpu", target="contracts.test_acceptance", k="canary and prompts_are_served"
    )
    cases = {case["case"] for order in orders(bench.serving) for case in order["cases"]}
    served = {name.rpartition("/")[2] for name in cases if name.startswith("engine/canary/")}
    due = {setting.name for setting in (*SETTINGS, *GPU_SETTINGS)}
    assert served == {name for name in due if not name.startswith(("fa4", "trtllm"))}
    assert {order["device"] for order in orders(bench.serving)} == {"cpu", "cuda"}
    told = [line for line in bench.record() if line["kind"] == "verdict" and line["outcome"] == "not-run"]
    assert {line["reason"] for line in told} == {
        "this release has no attention backend fa4",
        "this release has no attention backend trtllm_mha",
    }


def test_what_only_a_gpu_can_serve_is_left_out_elsewhere(bench: Bench) -> None:
    result = bench.run(target="contracts.test_acceptance", k="prompts_are_served")
    result.assert_outcomes(passed=2 * len(SETTINGS))
    assert result.ret == 0


def test_machine_without_a_gpu_runs_nothing_and_says_why(bench: Bench) -> None:
    bench.serve(SERVED, machine=NO_GPU)
    result = bench.run("-m", "contracts and gpu", target="contracts", k="plain or canary or llama")
    assert result.ret == EXIT_NOT_RUN
    outcomes = {line["outcome"] for line in bench.record() if line["kind"] == "verdict"}
    assert outcomes == {"not-run"}
    result.stdout.fnmatch_lines(["*why*torch finds no GPU here"])
    assert runs(bench.training) == runs(bench.serving) == 0


def test_what_needs_no_gpu_is_judged_beside_what_does(bench: Bench) -> None:
    bench.serve(SERVED, machine=NO_GPU)
    chosen = "plain and (test_norms or test_forward or delivered_values)"
    result = bench.run("--device=cuda", target="contracts", k=chosen)
    outcomes = {line["contract"].partition(".")[0]: line["outcome"] for line in bench.record()[1:-1]}
    assert outcomes == {"norms": "holds", "forward": "not-run", "aux_layers": "not-run"}
    assert result.ret == EXIT_NOT_RUN


@pytest.mark.parametrize(
    ("expression", "gpu", "server"),
    [
        ("contracts", False, False),
        ("contracts and gpu", True, False),
        ("gpu", True, False),
        ("contracts and server", False, True),
        ("contracts and gpu and server", True, True),
        ("contracts and (gpu or server)", True, True),
        ("contracts and not gpu", False, False),
        ("contracts and not  gpu", False, False),
        ("contracts and not (gpu or server)", False, False),
        ("contracts and gpu and not server", True, False),
        ("gpus", False, False),
        ("contracts and (", False, False),
        ("", False, False),
    ],
)
def test_marks_that_an_expression_asks_for(expression: str, gpu: bool, server: bool) -> None:
    assert (asks_for(expression, "gpu"), asks_for(expression, "server")) == (gpu, server)


def test_part_that_a_machine_lacks_accounts_for_itself(bench: Bench) -> None:
    bench.serve(SERVED, machine=ONE_GPU)
    result = bench.run(
        "-m",
        "contracts and gpu",
        target="contracts.test_acceptance",
        k="canary and prompts_are_served and fa",
    )
    told = {line["case"].partition("/")[0]: line.get("cause") for line in bench.record()[1:-1]}
    assert told["fa3_chain"] is None
    assert told["fa4_chain"] == "machine-lacks-it"
    assert result.ret == 0


# ------------------------------------------------------------- which backend suits which GPU


@pytest.mark.parametrize(
    ("found", "name", "says"),
    [
        (machine(9, 0), "fa3", None),
        (machine(10, 0), "fa3", "fa3 needs compute capability 8.0 to 9.0; a GPU has 10.0"),
        (machine(8, 0), "fa4", "fa4 needs compute capability 9.0 or later; a GPU has 8.0"),
        (machine(9, 0), "flashinfer", "this release has no attention backend flashinfer"),
        (machine(7, 0), "triton", "triton needs compute capability 7.5 or later; a GPU has 7.0"),
        (Machine(reason="no GPU"), "triton", "no GPU"),
    ],
)
def test_backend_that_a_gpu_cannot_run_is_told(found: Machine, name: str, says: str | None) -> None:
    assert found.why_not(name) == says


def test_trees_are_left_out_where_a_backend_verifies_chains_only() -> None:
    assert machine(10, 0).why_not("trtllm_mha", topk=1) is None
    assert machine(10, 0).why_not("trtllm_mha", topk=2) == "trtllm_mha verifies chains only (topk 1)"


def test_backend_that_nobody_has_heard_of_is_told() -> None:
    assert machine(9, 0, backends=("triton", "flashmla", "fa9")).unknown() == ("fa9",)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("nonsense", "could not tell its GPUs"),
        ("", "could not tell its GPUs: no output"),
        (json.dumps(ONE_GPU | {"gpus": [{"name": "x"}]}), "could not tell its GPUs"),
    ],
)
def test_interpreter_that_cannot_tell_its_gpus(tmp_path: Path, said: str, reason: str) -> None:
    python = fake_python(tmp_path / "serving", "sglang", machine=said)
    told = gpus.look(str(python)).reason
    assert told is not None
    assert reason in told
    assert "\n" not in told


def test_hung_driver_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: Any, **__: Any) -> None:
        raise subprocess.TimeoutExpired("python", 1)

    monkeypatch.setattr(subprocess, "run", hang)
    assert "is the driver hung?" in (gpus.look("python").reason or "")


# ---------------------------------------------------------------------------- real releases


def test_real_side_says_what_it_finds(sglang: Side) -> None:
    import torch

    found = gpus.look(sglang.python)
    if torch.cuda.is_available():
        assert found.gpus
        assert "triton" in found.backends
    else:
        assert "finds no GPU here" in (found.reason or "")


SCRIPT = Path(__file__).with_name("gpu_dry_run.py")


def ask(python: str, what: str, question: Any, folder: Path) -> str:
    """What the script says about a question, in a serving interpreter."""
    file = folder / "question.json"
    file.write_text(json.dumps(question))
    command = [python, str(SCRIPT), what, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def dry_run(sglang: Side, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the real release says of the command lines of the GPU tier, and its probe of its own imports."""
    lines = {setting.name: (setting.graphs, setting.server_args) for setting in GPU_SETTINGS}
    told = ask(sglang.python, "lines", lines, tmp_path_factory.mktemp("dry-run"))
    found: dict[str, Any] = json.loads(told.strip().splitlines()[-1])
    return found


def test_release_takes_the_arguments_of_the_gpu_tier(dry_run: dict[str, Any]) -> None:
    assert dry_run["refused"] == {}
    assert len(dry_run["taken"]) == len(GPU_SETTINGS)


def test_every_backend_of_the_release_is_known(dry_run: dict[str, Any]) -> None:
    assert set(dry_run["backends"]) <= {item.name for item in BACKENDS} | NOT_JUDGED.keys()
    assert "triton" in dry_run["backends"]


def test_probe_of_a_gpu_forks_before_the_library_is_imported(dry_run: dict[str, Any]) -> None:
    assert dry_run["imported_before_setup"] == []


@pytest.mark.parametrize("setting", SETTINGS[:2], ids=lambda setting: setting.name)
def test_states_are_seen_where_no_hook_is_called(
    real_workbench: Workbench, sglang: Side, tmp_path: Path, setting: Setting
) -> None:
    """As of a draft that is replayed from CUDA graphs: what the worker hands over counts."""
    group = real_workbench.group("canary")
    case = group.engine_case("canary", setting)
    order = {name: str(value) if isinstance(value, Path) else value for name, value in case.items()}
    ask(sglang.python, "observe", order | {"run": str(tmp_path / "run.json")}, tmp_path)
    with_hooks = group.served.folders[case["case"]] / "run.json"
    seen, due = (read_run(file) for file in (tmp_path / "run.json", with_hooks))
    assert without_branches(seen) == without_branches(due)
    branches = {item.branches for made in seen.generations for item in made.rounds}
    assert (branches == {()}) is (setting.topk > 1)  # a chain tells its own
    states, expected = (
        load_file(file.with_suffix(".safetensors")) for file in (tmp_path / "run.json", with_hooks)
    )
    assert states.keys() == expected.keys()
    assert all((states[name] == expected[name]).all() for name in expected)


def read_run(file: Path) -> EngineRun:
    return TypeAdapter(EngineRun).validate_json(file.read_bytes())


def without_branches(run: EngineRun) -> EngineRun:
    """What is known however a draft is watched."""
    return EngineRun(
        generations=tuple(
            replace(made, rounds=tuple(replace(item, branches=()) for item in made.rounds))
            for made in run.generations
        )
    )
