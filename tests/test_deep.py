"""`contracts check --deep`: the installed sglang is given the draft itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner, Result

from contracts import blank
from contracts.cli import app
from contracts.export import export_draft
from contracts.group import FIXTURES
from tests.checking import faulty, good, written
from tests.good_drafts import by_name
from tests.patient import Patient

if TYPE_CHECKING:
    from contracts.sides import Side

TARGET = FIXTURES / "target"


@pytest.fixture
def exported(sglang: Side, tmp_path: Path) -> Path:
    export_draft(FIXTURES / "canary", tmp_path / "draft", serving=sglang.version, target=TARGET)
    return tmp_path / "draft"


def deep(sglang: Side, *arguments: str) -> Result:
    options = ["--deep", "--serving-python", sglang.python, "--for", f"sglang=={sglang.version}"]
    return CliRunner().invoke(app, ["check", *options, *arguments])


def test_a_good_draft_is_loaded_and_served(sglang: Side, exported: Path) -> None:
    found = deep(sglang, str(exported), "--target", str(TARGET))
    assert found.exit_code == 0, found.output
    assert f"and by        sglang {sglang.version} itself, which was given the draft" in found.stdout
    assert f"sglang {sglang.version} is given the draft itself; its import takes a while" in found.stderr


def test_what_only_a_batch_shows(sglang: Side, exported: Path) -> None:
    config = json.loads((exported / "config.json").read_text())
    (exported / "config.json").write_text(json.dumps(config | {"dtype": "float16"}))
    data = json.loads(deep(sglang, str(exported), "--target", str(TARGET), "--format", "json").stdout)
    ((findings),) = [item["findings"] for item in data["releases"]]
    told = {item["contract"]: item for item in findings}
    assert told["header.dtypes.dtype_is_that_of_the_target"]["damage"] == "fails"
    assert "stage engine" in told["deep.draft_is_accepted"]["where"]


def test_the_library_confirms_what_headers_show(sglang: Side, exported: Path) -> None:
    tensors = load_file(exported / "model.safetensors")
    tensors["midlayer.self_attn.q_norm.weight"] = torch.ones(16, dtype=torch.bfloat16)
    del tensors["norm.weight"]
    save_file(tensors, exported / "model.safetensors", metadata={"format": "pt"})
    data = json.loads(deep(sglang, str(exported), "--target", str(TARGET), "--format", "json").stdout)
    causes = {(item["contract"], item["cause"]) for item in data["releases"][0]["findings"]}
    assert {
        ("header.weight_names.every_tensor_is_read", "qk-norm-missing"),
        ("header.weight_names.every_parameter_is_provided", "parameter-unwritten"),
        ("deep.every_tensor_is_read", "tensor-dropped"),
        ("deep.every_parameter_is_written", "parameter-unwritten"),
    } <= causes


def test_a_draft_of_speculators_is_exported_for_it(sglang: Side) -> None:
    found = deep(sglang, str(FIXTURES / "canary"), "--format", "json")
    causes = {item["cause"] for item in json.loads(found.stdout)["releases"][0]["findings"]}
    assert causes == {"config-not-resolved"}  # of the raw one; the library takes the export
    assert "speculators" in found.stderr
    assert "runs the draft, too" in found.stderr


def test_numbers_that_differ_have_a_cause(sglang: Side, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "canary", tmp_path / "draft")
    config = json.loads((tmp_path / "draft" / "config.json").read_text())
    changed = config | {"norm_before_residual": not config.get("norm_before_residual")}
    (tmp_path / "draft" / "config.json").write_text(json.dumps(changed))
    found = json.loads(deep(sglang, str(tmp_path / "draft"), "--format", "json").stdout)
    causes = {(item["contract"], item["cause"]) for item in found["releases"][0]["findings"]}
    assert ("header.norms.norms_of_training_are_applied", "residual-before-norm") in causes
    assert ("deep.prefill_state_is_equal", "residual-before-norm") in causes


def test_too_large_for_the_engine_is_said(sglang: Side, tmp_path: Path) -> None:
    patient = Patient.of(by_name("specforge_ids"))
    patient.tensors["midlayer.mlp.huge.weight"] = blank.weight(5_000_000_000)
    draft, target = written(tmp_path, patient)
    found = deep(sglang, draft, "--target", target)
    assert "note  the engine: more, with a stand-in for the target" in found.stdout
    assert "deep.every_tensor_is_read" in found.stdout


def test_what_the_library_cannot_be_given_is_one_line(sglang: Side, tmp_path: Path) -> None:
    draft, _ = good(tmp_path)
    file = deep(sglang, f"{draft}/model.safetensors")
    assert (file.exit_code, "the library reads folders" in file.stderr) == (2, True)
    absent = CliRunner().invoke(app, ["check", draft, "--deep", "--serving-python", "/no/python"])
    assert absent.exit_code == 2
    assert "/no/python" in absent.stderr
    assert "Traceback" not in absent.output


def test_a_refusal_is_told_in_the_librarys_words(sglang: Side, tmp_path: Path) -> None:
    draft, target = faulty(tmp_path, "ids_repeated")
    found = deep(sglang, draft, "--target", target)
    assert found.exit_code == 1
    assert "deep.draft_is_accepted" in found.stdout
    assert "RuntimeError: " in found.stdout
