"""`contracts export` as its user runs it: what it says, refuses and does not take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from contracts.terminal import EXIT_BROKEN
from tests.exporting import change_tensors, nothing_left, one_line, run
from tests.facts import save_draft, save_target

# ------------------------------------------------------------------------------------- written


def test_summary_says_what_was_renamed_converted_set_and_dropped(
    draft: Path, target: Path, tmp_path: Path
) -> None:
    result = run("export", draft, "--for", "sglang==0.5.23", "--target", target, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    told = result.stdout
    assert "written" in told.splitlines()[0]
    assert "10 tensors: layers.0.* -> midlayer.*" in told
    assert "layer ids [1, 4, 6] -> [0, 3, 5] (for LlamaForCausalLM)" in told
    assert "dtype bfloat16, the target's (config.json said float32)" in told
    assert "max_position_embeddings 512 -> 4096" in told
    assert "t2d, which says nothing that d2t does not" in told
    assert f"--speculative-draft-model-path {tmp_path / 'out'}" in told
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["dtype"] == "bfloat16"
    assert config["max_position_embeddings"] == 4096


def test_exporting_twice_gives_identical_bytes(draft: Path, target: Path, tmp_path: Path) -> None:
    for out in ("one", "two"):
        assert run("export", draft, "--target", target, "-o", tmp_path / out).exit_code == 0
    one, two = (sorted((tmp_path / out).iterdir()) for out in ("one", "two"))
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in two]
    assert [file.name for file in one] == ["config.json", "model.safetensors"]


def test_output_elsewhere_than_on_a_terminal_is_plain(draft: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from contracts.cli import main; main()", "export", str(draft)]
    done = subprocess.run([*command, "-o", str(tmp_path / "out")], capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr == ""


# ------------------------------------------------------------------------------------- refused


def test_refusal_says_cause_consequence_and_what_helps(tmp_path: Path) -> None:
    draft = save_draft(tmp_path / "draft", norm_before_residual=True)
    result = run("export", draft, "-o", tmp_path / "out")
    assert result.exit_code == EXIT_BROKEN
    for told in ("norm_before_residual: true", "norm-not-served", "consequence", "--no-norm-before-residual"):
        assert told in result.stdout
    assert "nothing was written" in result.stdout
    assert nothing_left(tmp_path)


def test_force_writes_it_and_stamps_what_is_wrong(tmp_path: Path) -> None:
    draft = save_draft(tmp_path / "draft", norm_before_residual=True)
    result = run("export", draft, "-o", tmp_path / "out", "--force")
    assert result.exit_code == 0
    assert "forced" in result.stdout
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["exported_by_draft_contracts"] == {
        "for": "sglang 0.5.23",
        "not_expressed": ["norm_before_residual: true (norm-not-served)"],
    }


def test_sound_export_says_that_all_was_expressed(draft: Path, tmp_path: Path) -> None:
    assert run("export", draft, "-o", tmp_path / "out", "--force").exit_code == 0
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["exported_by_draft_contracts"]["not_expressed"] == []


@pytest.mark.parametrize(
    ("layer", "changes", "told"),
    [
        ({}, {"architectures": ["Gemma3ForCausalLM"]}, "state-without-residual"),
        ({}, {"architectures": ["NobodysForCausalLM"]}, "capture-unknown"),
        ({}, {"num_hidden_layers": 5}, "layer-out-of-range"),
        ({}, {"num_hidden_layers": 6}, "last-layer-not-captured"),
        (
            {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
            {},
            "not-expressible",
        ),
        (
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}},
            {},
            "not-expressible",
        ),
    ],
)
def test_target_that_the_draft_cannot_be_served_for(
    tmp_path: Path, layer: dict[str, object], changes: dict[str, object], told: str
) -> None:
    draft, target = (
        save_draft(tmp_path / "draft", layer=layer),
        save_target(tmp_path / "target", max_position_embeddings=4096, **changes),
    )
    result = run("export", draft, "--target", target, "-o", tmp_path / "out")
    assert result.exit_code == EXIT_BROKEN
    assert told in result.stdout
    assert nothing_left(tmp_path)


# ----------------------------------------------------------------------------------- bad input


def test_nan_is_named_with_file_and_tensor(draft: Path, tmp_path: Path) -> None:
    broken = torch.ones(64, 192)
    broken[3, 5] = float("nan")
    change_tensors(draft, fc__weight=broken)
    line = one_line(run("export", draft, "-o", tmp_path / "out"))
    assert f"{draft}/model.safetensors: tensor 'fc.weight' holds NaN or infinity" in line
    assert nothing_left(tmp_path)


@pytest.mark.parametrize(
    ("d2t", "told"),
    [
        (torch.full((192,), 100), "d2t maps to token 256 of a vocabulary of 256"),
        (torch.full((192,), -1), "d2t maps to token -1 of a vocabulary of 256"),
        (-torch.arange(192), "d2t maps two draft tokens to one"),
        (torch.full((192,), 1), "d2t and t2d are not of one vocabulary map"),
        (torch.zeros(192), "d2t is of dtype F32, expected I64 or I32"),
    ],
)
def test_map_that_leads_nowhere_is_named(draft: Path, tmp_path: Path, d2t: torch.Tensor, told: str) -> None:
    change_tensors(draft, d2t=d2t)
    line = one_line(run("export", draft, "-o", tmp_path / "out", "--force"))
    assert f"{draft}/model.safetensors" in line
    assert told in line
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float64, torch.float8_e4m3fn])
def test_weight_of_a_wrong_dtype_is_named(draft: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    change_tensors(draft, fc__weight=torch.ones(64, 192).to(dtype))
    line = one_line(run("export", draft, "-o", tmp_path / "out"))
    assert f"{draft}/model.safetensors: fc.weight is of dtype" in line
    assert "expected F32 or BF16 or F16" in line


def test_missing_shard_and_index_that_points_outside_are_named(draft: Path, tmp_path: Path) -> None:
    index = draft / "model.safetensors.index.json"
    for shard, told in (
        (
            "model-2.safetensors",
            "shard model-2.safetensors of the index, with tensor 'fc.weight', is missing",
        ),
        ("../../etc/passwd", "points outside the checkpoint folder"),
        ("", "no 'weight_map'"),
        ("model.safetensors", "is not in the index"),
    ):
        index.write_text(json.dumps({"weight_map": {"fc.weight": shard}}))
        assert told in one_line(run("export", draft, "-o", tmp_path / "out"))
    index.write_text('{"weight_map": {}}')
    assert "names no tensor at all" in one_line(run("export", draft, "-o", tmp_path / "out"))


def test_index_that_names_another_shard_is_one_line(draft: Path, tmp_path: Path) -> None:
    names = list(load_file(draft / "model.safetensors"))
    save_file({"stray": torch.ones(1)}, draft / "other.safetensors")
    weight_map = dict.fromkeys(names, "model.safetensors") | {"stray": "other.safetensors"}
    weight_map["fc.weight"] = "other.safetensors"
    (draft / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    line = one_line(run("export", draft, "-o", tmp_path / "out"))
    assert "tensor 'fc.weight' is in model.safetensors, not in other.safetensors" in line


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_what_is_no_ordinary_file_is_not_waited_for(draft: Path, tmp_path: Path, name: str) -> None:
    (draft / name).unlink()
    os.mkfifo(draft / name)
    assert "no ordinary file" in one_line(run("export", draft, "-o", tmp_path / "out"))


def test_folders_that_were_made_for_nothing_go(draft: Path, tmp_path: Path) -> None:
    change_tensors(draft, fc__weight=torch.full((64, 192), float("nan")))
    one_line(run("export", draft, "-o", tmp_path / "new" / "er" / "out"))
    assert nothing_left(tmp_path)


def test_control_characters_stay_off_the_terminal(draft: Path, tmp_path: Path) -> None:
    change_tensors(draft, **{"evil\n\x1b[31m": torch.ones(1)})
    assert "evil\\n\\x1b[31m" in one_line(run("export", draft, "-o", tmp_path / "out"))


def test_target_of_another_class_than_trained_for_is_told(target: Path, tmp_path: Path) -> None:
    verifier = {"verifier": {"architectures": ["Qwen3ForCausalLM"]}}
    draft = save_draft(tmp_path / "draft", speculators_config=verifier)
    told = run("export", draft, "--target", target, "-o", tmp_path / "out").stdout
    assert "trained for Qwen3ForCausalLM, exported for LlamaForCausalLM" in told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"vocab_size": 300}, "vocab_size is 256, and the target's is 300"),
        ({"hidden_size": 128}, "hidden_size is 64, and the target's is 128"),
        ({"num_hidden_layers": None}, "target/config.json: no language model's config (num_hidden_layers"),
        ({"num_hidden_layers": "8"}, "target/config.json: no language model's config (num_hidden_layers"),
        ({"dtype": "float8_e4m3fn"}, "target/config.json: no language model's config (dtype"),
    ],
)
def test_config_of_another_target_is_one_line(
    draft: Path, tmp_path: Path, changes: dict[str, object], told: str
) -> None:
    target = save_target(tmp_path / "target", max_position_embeddings=4096, **changes)
    assert told in one_line(run("export", draft, "--target", target, "-o", tmp_path / "out"))


@pytest.mark.parametrize(
    ("release", "told"),
    [
        ("0.5.x", "write sglang==VERSION"),
        ("sglang>=0.5.23", "write sglang==VERSION"),
        ("vllm==0.5.23", "write sglang==VERSION"),
        ("sglang==", "write sglang==VERSION"),
        ("sglang==0.5.5", "sglang 0.5.5 is older than 0.5.6"),
    ],
)
def test_release_that_is_none_is_one_line(draft: Path, tmp_path: Path, release: str, told: str) -> None:
    assert told in one_line(run("export", draft, "--for", release, "-o", tmp_path / "out"))


def test_version_alone_is_one_of_sglang(draft: Path, tmp_path: Path) -> None:
    assert "for sglang 0.5.20" in run("export", draft, "--for", "0.5.20", "-o", tmp_path / "out").stdout


# ---------------------------------------------------------------------------------------- help


def test_help_has_examples() -> None:
    told = run("export", "--help").stdout
    assert "contracts export my-draft" in told
    assert run("--version").stdout.startswith("draft-contracts ")
    assert "export" in run("--help").stdout
    assert run().stdout == run("--help").stdout


def test_command_line_needs_no_heavy_import() -> None:
    heavy = "('torch', 'pytest', 'transformers')"
    code = f"import sys, contracts.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
